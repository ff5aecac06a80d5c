"""`headway worker`, `worker-list` and `worker-drain`."""
