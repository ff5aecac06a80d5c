from __future__ import annotations

from typing import Any

import pytest

from headway.core.address import Address, parse_address
from headway.core.config import WorkerOptions
from headway.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [
        (8080, "127.0.0.1", 8080),
        ("8080", "127.0.0.1", 8080),
        (":8080", "0.0.0.0", 8080),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("localhost:0", "localhost", 0),
        ("[::1]:65535", "::1", 65535),
        (" worker-1.internal:9090 ", "worker-1.internal", 9090),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(written: Any, host: str, port: int) -> None:
    assert parse_address(written) == Address(host, port)
    assert WorkerOptions(health=written).health == written


@pytest.mark.parametrize(
    "written", ["", "host", "host:", ":99999", -1, 65536, True, "::1:80", "a b:80", "http://x:80"]
)
def test_what_is_no_address_is_refused_with_advice(written: Any) -> None:
    with pytest.raises(ConfigError, match="address"):
        WorkerOptions(health=written)


def test_each_process_answers_one_port_further() -> None:
    base = parse_address("[::]:8080")
    assert [str(base.next(number)) for number in range(3)] == [
        "[::]:8080",
        "[::]:8081",
        "[::]:8082",
    ]
    assert parse_address(":0").next(7).port == 0, "any port that is free is free for each"
    with pytest.raises(ConfigError, match="65530"):
        parse_address(65530).next(6)
