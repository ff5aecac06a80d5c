"""What the fleet does for itself: the leader, its sweeps, schedules and counts."""
