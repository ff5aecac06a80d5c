"""A greeter that reads a file. The file is missing, so it fails; then it is made, and the greeter is
resumed where it failed.

python examples/greeter.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from headway import Headway, Retry

hw = Headway()
greeter = hw.flow("greeter", retry=Retry(max_attempts=1))


@greeter.step
async def read_name(file: str):
    return greet.next(name=Path(file).read_text().strip())


@greeter.step
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    file = Path("name.txt")
    file.unlink(missing_ok=True)
    await hw.migrate()
    async with hw:
        job = await greeter.enqueue(file=str(file))
        await hw.run_until_idle()
        status = await job.status()
        print(f"{status.state} at {status.step}: {(status.error or {})['message']}")
        assert status.state == "failed"

        file.write_text("Ada")
        await job.retry()
        await hw.run_until_idle()
        print(await job.result())
    file.unlink()


if __name__ == "__main__":
    asyncio.run(main())
