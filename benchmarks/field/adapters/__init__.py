"""One program for each system. They run in the environment of that system, with nothing of ours in it."""
