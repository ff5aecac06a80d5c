"""The result of one check: ok, worth a note, or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A note is worth knowing; a wrong one keeps jobs from running."""

    about: str
    status: Status
    words: str
