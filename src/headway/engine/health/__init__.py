"""Whether a worker is alive and ready, and who is told."""
