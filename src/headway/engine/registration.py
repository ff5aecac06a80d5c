"""The id by which a worker claims, shared by every part that writes in its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Registration:
    """The worker's registration. The worker writes it, other parts read it."""

    worker_id: int = 0
    """The id to claim by. 0 while the lease cannot be trusted: the worker claims nothing."""
