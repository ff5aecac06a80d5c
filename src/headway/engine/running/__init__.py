"""Runs claimed jobs, from the call of a handler to its verdict."""
