"""The warning for a sync call inside a running event loop, which blocks that loop."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from types import FrameType


def warn_if_on_loop() -> None:
    """Warn, once per calling line, if this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    caller, called = _caller(inspect.currentframe())
    if caller is None:
        return
    twin = called.removesuffix("_sync")
    instead = f"await {twin}(...)" if twin != called else "use the async form (`async with`)"
    warnings.warn_explicit(
        f"{called} was called inside a running event loop and blocks it until the database answers; "
        f"{instead} instead",
        RuntimeWarning,
        caller.f_code.co_filename,
        caller.f_lineno,
        registry=caller.f_globals.setdefault("__warningregistry__", {}),
    )


def _caller(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """Return the first frame outside the package, and the function of ours that it called."""
    called = ""
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "headway":
        called, frame = frame.f_code.co_name, frame.f_back
    return frame, called
