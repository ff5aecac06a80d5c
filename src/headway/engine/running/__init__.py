"""Claimed jobs on this worker, from the call of a handler to its verdict."""
