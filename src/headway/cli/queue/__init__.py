"""`headway queue`: commands about queues."""
