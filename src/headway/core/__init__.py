"""Values, rules and decisions. Pure: no I/O, no clock, no chance."""
