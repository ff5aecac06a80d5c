"""`hw.pull`: jobs for consumers that are not workers."""
