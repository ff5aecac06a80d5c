"""The soak: everything runs together, at random much of it breaks, and at the end the counts are exact.

`python -m tests.soak MINUTES` (or `./test --soak MINUTES`) starts a server, workers and producers, breaks
them at random, lets everything finish, and counts. `__main__.py` has the order of events.
"""
