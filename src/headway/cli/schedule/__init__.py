"""`headway schedule`: commands about schedules."""
