"""Whether a worker is alive and ready, and how it reports that."""
