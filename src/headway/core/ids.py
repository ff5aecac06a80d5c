"""The only maker of ids: UUIDv7, in order within a process.

The client makes a job's id before the row exists. So the id is known before the commit, and the client
can repeat an enqueue whose reply was lost (G3). Version 7 keeps index inserts at one end.
"""

from __future__ import annotations

import secrets
import threading
from uuid import UUID

from headway.core.clock import unix_milliseconds

_lock = threading.Lock()
_last = 0
_COUNTER_BITS = 12


def new_id() -> UUID:
    """Return a UUIDv7 that is greater than every one this process made before.

    The 12 bits after the timestamp count within a millisecond. If they overflow, or if the machine's
    clock steps back, the timestamp keeps growing, so no id repeats.
    """
    global _last
    with _lock:
        _last = max(unix_milliseconds() << _COUNTER_BITS, _last + 1)
        tick = _last
    millis, counter = tick >> _COUNTER_BITS, tick & 0xFFF
    return UUID(int=millis << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | secrets.randbits(62))


def new_ids(count: int) -> list[str]:
    """Return as many ids as 32 hexadecimal digits each, in order. They are drawn in one go."""
    global _last
    with _lock:
        first = max(unix_milliseconds() << _COUNTER_BITS, _last + 1)
        _last = first + count - 1
    chance = memoryview(secrets.token_bytes(8 * count)).cast("Q")
    return [
        f"{tick >> _COUNTER_BITS:012x}7{tick & 0xFFF:03x}{drawn >> 2 | 1 << 63:016x}"
        for tick, drawn in zip(range(first, first + count), chance, strict=True)
    ]


def new_nonce() -> str:
    """Return a short random word that tells one process's messages from another's."""
    return secrets.token_hex(8)
