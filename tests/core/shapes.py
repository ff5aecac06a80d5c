"""Types that users put into signatures, one of every kind."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


class Line(msgspec.Struct, tag="line"):
    points: list[Point]


class Circle(msgspec.Struct, tag="circle"):
    centre: Point
    radius: float


class Address(TypedDict):
    street: str
    zip: str | None


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Person:
    name: str
    born: date
    address: Address | None = None
    tags: set[str] = field(default_factory=set)


@attrs.define
class Box:
    width: int
    label: str = "box"


class Order(pydantic.BaseModel):
    id: UUID
    total: Decimal
    placed: datetime
    lines: list[str] = []


KINDS: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "none": None,
    "datetime": datetime,
    "date": date,
    "time": time,
    "timedelta": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "enum": Colour,
    "int enum": Level,
    "struct": Point,
    "tagged union": Line | Circle,
    "typed dict": Address,
    "named tuple": Pair,
    "dataclass": Person,
    "attrs": Box,
    "pydantic": Order,
    "optional": Person | None,
    "list of models": list[Order],
    "dict of structs": dict[str, Point],
    "tuple": tuple[int, str, Point],
    "set": set[int],
    "frozen set": frozenset[str],
    "keys that are no text": dict[int, UUID],
    "nested": dict[str, list[Person | None]],
}
