"""Listeners: notifications become hints for workers and callers."""
