"""A worker for an app: made from its definitions and settings."""

from __future__ import annotations

from headway._api.registry import Registry
from headway._api.session import Session
from headway.core.config import WorkerSettings
from headway.core.duration import optional_seconds
from headway.engine.worker import Worker
from headway.version import __version__


def new_worker(session: Session, registry: Registry, settings: WorkerSettings) -> Worker:
    """Return a worker that does not run yet. Settings that are left out come from the configuration."""
    return Worker(
        session.target,
        registry.definitions(),
        session.settings.worker(settings),
        version=__version__,
        clock=session.clock,
        max_result=session.max_payload_bytes,
        overrides=session.overrides,
        prepare_child=session.prepare_child(),
        max_wait=optional_seconds(session.settings.health.max_wait),
        declared=registry.declared(),
        hooks=session.hooks,
    )
