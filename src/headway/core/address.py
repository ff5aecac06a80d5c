"""The address of a worker's health endpoint: a host and a port, as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from headway.errors import ConfigError

THIS_MACHINE = "127.0.0.1"
EVERYWHERE = "0.0.0.0"

_WRITTEN = re.compile(r"(?:(?P<host>[\w.-]*|\[[0-9a-fA-F:.%]+\]):)?(?P<port>\d{1,5})", re.ASCII)
_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port. Port 0 stands for any free port."""

    host: str
    port: int

    @property
    def is_v6(self) -> bool:
        return ":" in self.host

    def next(self, number: int) -> Address:
        """Return the address of the process with this number: its port is higher by that number.

        >>> str(Address("0.0.0.0", 8080).next(2))
        '0.0.0.0:8082'
        """
        if self.port == 0:
            return self
        port = self.port + number
        if port > _LARGEST_PORT:
            raise ConfigError(
                f"health: process {number} would need port {port}, but the largest port is "
                f"{_LARGEST_PORT}; use a lower first port than {self.port}"
            )
        return replace(self, port=port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_v6 else f"{self.host}:{self.port}"


def parse_address(value: str | int) -> Address:
    """Parse "0.0.0.0:8080", "[::1]:8080", ":8080" (every interface) or 8080 (this machine only).

    Raise ConfigError if the value is not an address.

    >>> parse_address(8080), parse_address(":8080")
    (Address(host='127.0.0.1', port=8080), Address(host='0.0.0.0', port=8080))
    """
    found = None if isinstance(value, bool) else _WRITTEN.fullmatch(str(value).strip())
    if found is None or int(found["port"]) > _LARGEST_PORT:
        raise ConfigError(
            f"health {value!r} is not an address; write it like '0.0.0.0:8080', ':8080' for every "
            "interface, or only a port for this machine"
        )
    host = found["host"]
    if host is None:
        host = THIS_MACHINE
    return Address(host.strip("[]") or EVERYWHERE, int(found["port"]))
