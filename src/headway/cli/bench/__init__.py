"""`headway bench`: how fast Headway is on this database, and what limits it."""
