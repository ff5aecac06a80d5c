"""A shop with FastAPI and SQLAlchemy: an order and its jobs are stored together, or not at all.

python shop.py                                      # creates the tables and Headway's schema
uvicorn shop:app                                    # serves requests, with a worker inside
WORKER=0 uvicorn shop:app; headway worker shop:hw   # or in processes of their own
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from headway import Headway, Retry
from headway.fastapi import InTransaction, in_transaction, lifespan

url = os.environ.get("DATABASE_URL", "postgresql://localhost/shop")
engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
sessions = async_sessionmaker(engine, expire_on_commit=False)
hw = Headway(url)


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """An order, and how far it is."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    receipt: Mapped[str | None]


@hw.task(queue="mail", retry=Retry(max_attempts=8), timeout="30s")
async def send_receipt(order_id: int) -> str:
    """Send a receipt. The job may run again, so it sets a state rather than changing one."""
    async with sessions() as session, session.begin():
        order = await session.get_one(Order, order_id)
        order.receipt = f"receipts/{order_id}.pdf"
        return f"sent to {order.email}"


@hw.task(schedule="@hourly")
async def count_orders() -> int:
    """Count the orders, every hour."""
    async with sessions() as session:
        return await session.scalar(select(func.count()).select_from(Order)) or 0


async def get_session() -> AsyncGenerator[AsyncSession]:
    """Give each request a session. What is not committed is rolled back."""
    async with sessions() as session:
        yield session


Session = Annotated[AsyncSession, Depends(get_session)]
Jobs = Annotated[InTransaction, in_transaction(get_session)]


@asynccontextmanager
async def _engine(_: FastAPI) -> AsyncGenerator[None]:
    yield
    await engine.dispose()


inside = os.environ.get("WORKER") != "0"
app = FastAPI(lifespan=lifespan(hw, worker={} if inside else None, inner=_engine))


class NewOrder(BaseModel):
    """A request to order."""

    email: str


@app.post("/orders", status_code=201)
async def order(new: NewOrder, session: Session, jobs: Jobs) -> dict[str, int]:
    """Store an order and enqueue its receipt in one transaction."""
    placed = Order(email=new.email)
    session.add(placed)
    await session.flush()
    await jobs(send_receipt).enqueue(placed.id)
    if "@" not in new.email:
        raise HTTPException(422, "no such address")  # neither the order nor the job exists
    await session.commit()
    return {"id": placed.id}


@app.get("/orders/{order_id}")
async def show(order_id: int, session: Session) -> dict[str, str | None]:
    """Show an order."""
    found = await session.get(Order, order_id)
    if found is None:
        raise HTTPException(404)
    return {"email": found.email, "receipt": found.receipt}


async def prepare() -> None:
    """Create the tables, and Headway's schema. A real shop has migrations of its own."""
    async with engine.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
    await engine.dispose()
    await hw.migrate()


if __name__ == "__main__":
    asyncio.run(prepare())
