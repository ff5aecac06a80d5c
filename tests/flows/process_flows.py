"""Flows with steps that run in processes: at the top of a module, so that a process can import them."""

import os
from dataclasses import dataclass, field

from headway import Context, Headway, Next, Retry

app = Headway("postgresql://never-used@127.0.0.1:1/none")
AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)


@dataclass
class Basket:
    """The state that the flow carries."""

    things: list[str] = field(default_factory=list)
    pid: int = 0


@app.task(name="child")
async def child(n: int) -> int:
    return n


basket = app.flow("basket", state=Basket, retry=AT_ONCE)


@basket.step
async def begin(thing: str) -> Next:
    return heavy.next(thing=thing)


@basket.step(executor="process", retry=Retry(max_attempts=2, backoff="constant", base=0, jitter=0))
def heavy(ctx: Context, thing: str) -> Next:
    state = basket.state(ctx)
    state.things.append(f"{thing} {ctx.step} {ctx.attempt}")
    state.pid = os.getpid()
    made = ctx.enqueue_sync(child.using(priority=4), n=ctx.attempt)
    if ctx.attempt == 1:
        raise OSError("after everything")
    return finish.after(0, pid=os.getpid(), child=str(made.id))


@basket.step(queue="own", priority=6)
async def finish(ctx: Context, pid: int, child: str) -> dict[str, object]:
    state = basket.state(ctx)
    return {"things": state.things, "pids": [pid, state.pid], "child": child}


lines = app.flow("lines", retry=AT_ONCE)


@lines.step(executor="process")
def split(text: str) -> list[str] | Next:
    match text:
        case "wrong type":
            return after_split.next(parts=1)  # type: ignore[arg-type]
        case "nul":
            return after_split.next(parts=["\0"])
        case "too large":
            return after_split.next(parts=["x" * 3_000])
        case "stranger":
            return finish.next(pid=1, child="")
    return text.split()


@lines.step(executor="process")
def after_split(parts: list[str]) -> int:
    return len(parts)


lines.chain(split, after_split)
