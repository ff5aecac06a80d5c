"""What was found when something was looked at: fine, worth knowing, or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. A note is worth knowing; what is wrong keeps jobs from running."""

    about: str
    status: Status
    words: str
