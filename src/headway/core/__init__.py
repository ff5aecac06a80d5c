"""What Headway knows without asking anyone: values, rules and decisions. No I/O in here."""
