"""Connections: pools for user code, engine connections, handler transactions and listeners."""
