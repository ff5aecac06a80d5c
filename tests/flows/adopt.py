"""A flow of a module, as one of a test's app."""

from __future__ import annotations

import copy
from typing import Any

from headway import Flow, Headway


def adopt(app: Headway, flow: Flow[Any]) -> Flow[Any]:
    """The same steps, on another app's database."""
    mine = copy.copy(flow)
    mine._session = app._session
    app.tasks[flow.name] = app._session.tasks[flow.name] = mine
    return mine
