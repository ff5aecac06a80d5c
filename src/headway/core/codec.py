"""The wire format: Python values to stored JSON and back.

Payloads are JSON, never pickles. A task's parameters become a msgspec struct. It checks arguments
against the signature at enqueue and again before the run. No other module encodes or decodes.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from headway.errors import InvalidInput, PayloadTooLarge

T = TypeVar("T")

# jsonb cannot hold U+0000. An escape is a NUL only after an even number of backslashes.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

Raw = msgspec.Raw
"""JSON that is already encoded; the encoder embeds it unchanged."""


def _to_builtin(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:  # a pydantic model, recognised without importing pydantic
        return dump(mode="json")
    if isinstance(value, BaseException):
        return repr(value)
    raise TypeError(f"{type(value).__qualname__} cannot be stored as JSON{_hint(value)}")


def _hint(value: Any) -> str:
    """Return the hint for a row of an ORM, recognised without importing one."""
    kind: Any = value.__class__
    if hasattr(kind, "_meta") and hasattr(value, "pk"):
        return "; pass its primary key (.pk), and load it in the task"
    if hasattr(kind, "__mapper__"):
        return "; pass its primary key, and load it in the task"
    if hasattr(value, "model") and hasattr(value, "query"):
        return "; pass the primary keys, and load the rows in the task"
    return ""


def _from_builtin(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    if isinstance(value, kind):
        return value
    raise TypeError(f"{kind.__qualname__} cannot be read from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_to_builtin, decimal_format="string")


def encode(value: Any) -> bytes:
    """Return a value as JSON. Raise InvalidInput if it cannot be stored."""
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"cannot be stored as JSON: {error}") from error
    if b"\\u0000" in encoded and _NUL.search(encoded):
        raise InvalidInput(
            "cannot be stored: the text contains a NUL character (U+0000), which PostgreSQL does not "
            "accept; strip it, or send the bytes as base64"
        )
    # The encoder writes null for a float that JSON cannot express.
    if b"null" in encoded and _has_no_number(value):
        raise InvalidInput("cannot be stored as JSON: a float is NaN or infinite; send it as text")
    return encoded


def _has_no_number(value: Any) -> bool:
    """Return whether a storable value contains a float that is NaN or infinite."""
    plain: list[Any] = [msgspec.to_builtins(value, enc_hook=_to_builtin)]
    while plain:
        part = plain.pop()
        if isinstance(part, float):
            if not math.isfinite(part):
                return True
        elif isinstance(part, Mapping):
            plain += part.values()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif isinstance(part, list | tuple):
            plain += part
    return False


def encode_document(value: Any) -> str:
    """Return the document for one of our own statements. Its parts were checked before."""
    return _encoder.encode(value).decode()


def encode_for_people(value: Any) -> str:
    """Return the same document, indented."""
    return msgspec.json.format(encode_document(value), indent=2)


def decode(text: str | bytes) -> Any:
    """Return stored JSON as plain values."""
    return msgspec.json.decode(text)


def readable(text: str | bytes) -> Any:
    """Return stored JSON for people: plain values, or the text itself if it cannot be decoded."""
    try:
        return decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return text if isinstance(text, str) else text.decode(errors="replace")


def check_size(encoded: bytes, limit: int, what: str) -> bytes:
    if len(encoded) > limit:
        raise PayloadTooLarge(
            f"{what} is {len(encoded):,} bytes of JSON, more than the limit of {limit:,}; store the "
            "data elsewhere and pass a reference, or raise max_payload_bytes"
        )
    return encoded


class Shape(Generic[T]):
    """Decodes one type and checks it."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind, dec_hook=_from_builtin)

    def decode(self, text: str | bytes) -> T:
        try:
            return self._decoder.decode(text)
        except RecursionError as error:
            raise InvalidInput("it is nested too deeply") from error
        except (msgspec.DecodeError, ValueError) as error:  # such as an integer of 5,000 digits
            raise InvalidInput(str(error)) from error


class Parameters:
    """The parameters of a function as a struct: `encode` checks a call, `decode` a stored one."""

    def __init__(
        self,
        name: str,
        fields: Mapping[str, tuple[Any, Any]],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        """`fields` maps each name to (type, default). `REQUIRED` stands for no default. `aliases` maps
        earlier names to those of today."""
        self._aliases = aliases or {}
        specs: list[Any] = [
            (field, kind) if default is REQUIRED else (field, kind, _default(default))
            for field, (kind, default) in fields.items()
        ]
        self._struct: Callable[..., Any] = msgspec.defstruct(
            f"{name}_parameters", specs, kw_only=True, forbid_unknown_fields=True
        )
        self._shape = Shape[Any](self._struct)

    def encode(self, arguments: Mapping[str, Any]) -> bytes:
        """Return the call as JSON. Decode it once, as the worker will, to check its types."""
        encoded = encode(self._struct(**arguments))
        self._shape.decode(encoded)
        return encoded

    def decode(self, text: str | bytes) -> dict[str, Any]:
        """Return the arguments of a stored call, by the names of today."""
        try:
            return msgspec.structs.asdict(self._shape.decode(text))
        except InvalidInput:
            if (renamed := self._renamed(text)) is None:
                raise
            return msgspec.structs.asdict(self._shape.decode(renamed))

    def _renamed(self, text: str | bytes) -> bytes | None:
        """Return a stored call with earlier names replaced; None if it has none of them."""
        given = readable(text) if self._aliases else None
        if not isinstance(given, dict) or not (stored := cast("dict[str, Any]", given)):
            return None
        today = {self._aliases.get(name, name): value for name, value in stored.items()}
        if today.keys() == stored.keys() or len(today) < len(stored):
            return None
        return encode(today)


REQUIRED: Any = object()


def _default(value: Any) -> Any:
    # msgspec refuses mutable defaults. Copy them, so that calls do not share one.
    if isinstance(value, list | dict | set | msgspec.Struct):
        return msgspec.field(default_factory=lambda: copy.copy(value))  # pyright: ignore
    return value
