"""An app whose code says where its database is not, and a task that tells what its process found."""

from __future__ import annotations

from headway import Headway

hw = Headway("postgresql://127.0.0.1:1/of-the-code", schema="of_the_code")
configured = Headway()


@hw.task
async def where() -> list[str]:
    return [hw.dsn, hw._session.schema]


@hw.task(executor="process")
def where_in_a_process() -> list[str]:
    return [hw.dsn, hw._session.schema]


@configured.task(executor="process")
def pool_size() -> int:
    value: int = configured.settings["pool_size"].value
    return value
