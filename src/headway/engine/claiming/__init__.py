"""Claiming: which queues, lines and limits, after which cursors, and when to scan."""
