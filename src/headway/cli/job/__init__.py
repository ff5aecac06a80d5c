"""`headway job`: commands about jobs."""
