"""One worker whose conversation with the database follows a script."""
