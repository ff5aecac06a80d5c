"""The only place that talks to PostgreSQL.

A database operation is a value, `Statement[R]`. The modules of `statements/` make statements, and a sync
or an async runner runs them. All SQL is in `sql/`.
"""
