"""Listeners: they turn notifications into hints for workers and callers."""
