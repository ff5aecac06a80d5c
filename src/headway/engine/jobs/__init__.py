"""The round trip: verdicts go to the database, claims come back."""
