"""Headway in Flask: an extension that gives jobs the application context, and Headway the database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Protocol

from headway.app import Headway, session_of

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
        if app is not None:
            self.init_app(app)

    def init_app(self, app: FlaskApp) -> None:
        """Connect to an application. Jobs get the context of the last one: tests may make many."""
        app.extensions[_NAME] = self.hw
        session = session_of(self.hw)
        session.around[:] = [one for one in session.around if not isinstance(one, _Contexts)]
        session.around.append(_Contexts(app))
        if any(app.config.get(key) for key in _KEYS):
            session.release()
            session.find_dsn = lambda: next(app.config[key] for key in _KEYS if app.config.get(key))


class _Contexts:
    """An `Around`: the application context."""

    def __init__(self, app: FlaskApp) -> None:
        self._app = app

    @asynccontextmanager
    async def on_loop(self) -> AsyncGenerator[None]:
        with self._app.app_context():
            yield

    def in_thread(self) -> AbstractContextManager[object]:
        return self._app.app_context()
