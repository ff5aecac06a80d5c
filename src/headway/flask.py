"""Headway in Flask: an extension that gives jobs the application context, and Headway the database."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from headway.app import Headway, session_of
from headway.core.current import JobInfo
from headway.core.hooks import CallNext, SyncCallNext

_NAME = "headway"
_KEYS = ("HEADWAY_DATABASE_URL", "SQLALCHEMY_DATABASE_URI")


class FlaskApp(Protocol):
    """The parts of a Flask application that the extension uses."""

    config: Any
    extensions: dict[str, Any]

    def app_context(self) -> AbstractContextManager[Any]: ...


class FlaskJobs:
    """The extension. Every attempt of a job gets an application context, as every request does.

    So `current_app` and Flask-SQLAlchemy's `db.session` work in tasks, and what a request's teardown
    closes is closed after each attempt. The database is HEADWAY_DATABASE_URL in the application's
    configuration, else SQLALCHEMY_DATABASE_URI, else the one that Headway finds without Flask.

    >>> jobs = FlaskJobs(Headway())
    >>> jobs.init_app(app)                                              # doctest: +SKIP
    """

    def __init__(self, hw: Headway, app: FlaskApp | None = None) -> None:
        self.hw = hw
        self._app: FlaskApp | None = None
        hw.middleware(self._around_attempt)
        hw.middleware(self._around_plain)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: FlaskApp) -> None:
        """Connect to an application. Jobs get the context of the last one: tests may make many."""
        app.extensions[_NAME] = self.hw
        self._app = app
        if any(app.config.get(key) for key in _KEYS):
            session = session_of(self.hw)
            session.release()
            session.find_dsn = lambda: next(app.config[key] for key in _KEYS if app.config.get(key))

    async def _around_attempt(self, _: JobInfo, call_next: CallNext) -> Any:
        with self._context():
            return await call_next()

    def _around_plain(self, _: JobInfo, call_next: SyncCallNext) -> Any:
        with self._context():
            return call_next()

    def _context(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._app is None else self._app.app_context()
