"""Work for the whole fleet: the leader, its sweeps, schedules and counts."""
