"""The shop's own tests: `pytest`, with $DATABASE_URL of an empty database."""

import asyncio

from fastapi.testclient import TestClient
from shop import app, hw, prepare


def test_an_order_gets_a_receipt() -> None:
    asyncio.run(prepare())
    with TestClient(app) as client:  # the worker inside runs the job
        placed = client.post("/orders", json={"email": "ada@example.com"}).json()
        (job,) = hw.jobs.list_sync(task="send_receipt")
        assert hw.job(job.id).result_sync(timeout="30s") == "sent to ada@example.com"
        order = client.get(f"/orders/{placed['id']}").json()
        assert order["receipt"] == f"receipts/{placed['id']}.pdf"

        assert client.post("/orders", json={"email": "nobody"}).status_code == 422
        assert hw.jobs.count_sync(task="send_receipt") == 1
    hw.close_sync()
