"""Every database operation as a value: one function for each file of `sql/`."""
