"""A program that enqueues, one call after the other, and writes down what came of each call.

`python -m ha_cluster.producer async|sync FILE`, until SIGTERM. Each line is a JSON object: when the call
began, how long it took, and the id that was acknowledged or the error.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from itertools import count
from typing import Any, TextIO

from ha_cluster.app import f3, hw, plain, tx
from headway.errors import DatabaseError, DatabaseUnavailable

_PAUSE = 0.06
_KINDS: tuple[tuple[str, Any], ...] = (("tx", tx), ("plain", plain), ("f3", f3))


class Stop:
    """Set by SIGTERM: the call under way is the last."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


def note(file: TextIO, kind: str, began: float, **came: str) -> None:
    line = {"kind": kind, "at": time.time(), "took": time.monotonic() - began, **came}
    file.write(json.dumps(line) + "\n")
    file.flush()


async def produce(file: TextIO, stop: Stop) -> None:
    for n in count():
        if stop.asked:
            break
        kind, task = _KINDS[n % len(_KINDS)]
        began = time.monotonic()
        try:
            job = await task.enqueue(n)
            note(file, kind, began, id=str(job.id))
        except (DatabaseError, DatabaseUnavailable) as error:
            note(file, kind, began, error=f"{type(error).__name__}: {error}")
        await asyncio.sleep(_PAUSE)
    await hw.close()


def produce_sync(file: TextIO, stop: Stop) -> None:
    for n in count():
        if stop.asked:
            break
        kind, task = _KINDS[n % len(_KINDS)]
        began = time.monotonic()
        try:
            job = task.enqueue_sync(n)
            note(file, kind, began, id=str(job.id))
        except (DatabaseError, DatabaseUnavailable) as error:
            note(file, kind, began, error=f"{type(error).__name__}: {error}")
        time.sleep(_PAUSE)
    hw.close_sync()


if __name__ == "__main__":
    with open(sys.argv[2], "a") as out:
        if sys.argv[1] == "async":
            asyncio.run(produce(out, Stop()))
        else:
            produce_sync(out, Stop())
