"""What to claim next: queues, priorities, cursors, fair shares and limits."""
