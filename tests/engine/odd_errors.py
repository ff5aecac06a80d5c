"""Exceptions that are hard to handle, and a task that raises them in a process."""

import threading
from collections.abc import Callable

from headway import Headway, Retry

app = Headway("postgresql://never-used@127.0.0.1:1/none")


class OddText(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


class Locked(Exception):
    """Neither copied nor pickled."""

    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class Demanding(Exception):
    """Cannot be made again from its args."""

    def __init__(self, one: int, *, two: int) -> None:
        super().__init__()


def make_local() -> Exception:
    class Local(Exception):
        pass

    return Local("local")


def make_chain() -> BaseException:
    error = RuntimeError("top")
    error.__cause__ = KeyError("middle")
    error.__cause__.__cause__ = OSError("root")
    return error


def make_deep() -> BaseException:
    def dig(n: int) -> int:
        return dig(n + 1) + 1

    try:
        dig(0)
    except RecursionError as error:
        return error
    raise AssertionError


ODD: dict[str, Callable[[], BaseException]] = {
    "odd text": OddText,
    "locked": Locked,
    "demanding": lambda: Demanding(1, two=2),
    "local": make_local,
    "nul": lambda: ValueError("a\0b"),
    "surrogate": lambda: ValueError("\ud800"),
    "bytes": lambda: ValueError(b"\xff\x00"),
    "chain": make_chain,
    "group": lambda: ExceptionGroup("several", [ValueError("first of two"), KeyError("second")]),
    "deep": make_deep,
    "long": lambda: ValueError("x" * 1_000_000),
}


@app.task(executor="process", retry=Retry(max_attempts=1))
def in_a_process(kind: str) -> None:
    raise ODD[kind]()
