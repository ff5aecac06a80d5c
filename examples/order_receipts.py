"""Order receipts: a PDF, then a mail. The mail service is down for a while, then everything resumes.

python examples/order_receipts.py
"""

from __future__ import annotations

import asyncio

from headway import Headway, Retry

hw = Headway()
receipts = hw.flow("order-receipt", queue="orders")

rendered: list[int] = []
sent: list[str] = []
mail_service_is_up = False


@receipts.step
async def generate(order_id: int):
    rendered.append(order_id)
    return email.next(receipt_key=f"receipts/{order_id}.pdf")


@receipts.step(retry=Retry(max_attempts=2, base="50ms"), timeout="1m", priority=3)
async def email(receipt_key: str):
    if not mail_service_is_up:
        raise ConnectionError("mail.example.com does not answer")
    sent.append(receipt_key)
    return {"sent": receipt_key}


async def main() -> None:
    global mail_service_is_up
    await hw.migrate()
    async with hw:
        jobs = await receipts.enqueue_many([{"order_id": n} for n in (41, 42, 43)])
        await _until_ended(jobs)
        for job in jobs:
            status = await job.status()
            print(job.id, status.state, "at", status.step, "-", (status.error or {})["message"])

        mail_service_is_up = True  # the world is fixed
        for job in jobs:
            await job.retry()
        print("results:", [await _result(job) for job in jobs])
        for row in await jobs[0].history():
            print(f"  {row.step:9} attempt {row.attempt}: {row.outcome}")
        assert sorted(rendered) == [41, 42, 43], "each PDF was made once"
        assert len(sent) == 3, "each mail was sent once"


async def _until_ended(jobs) -> None:
    worker = hw.worker(queues={"orders": 1})
    running = asyncio.create_task(worker.run())
    while not all([(await job.status()).finished for job in jobs]):
        await asyncio.sleep(0.05)
    worker.stop()
    await running


async def _result(job) -> dict[str, str]:
    await _until_ended([job])
    return await job.result()


if __name__ == "__main__":
    asyncio.run(main())
