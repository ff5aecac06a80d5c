"""Tasks that make jobs from inside a process."""

from headway import Context, Headway, Retry

app = Headway("postgresql://never-used@127.0.0.1:1/none")


@app.task
async def small(n: int) -> int:
    return n


@app.task(executor="process", retry=Retry(max_attempts=2, backoff="constant", base=0, jitter=0))
def parent_in_process(ctx: Context) -> list[str]:
    jobs = [
        ctx.enqueue_sync(small, n=ctx.attempt),
        ctx.enqueue_sync(small.using(queue="elsewhere", delay="1h"), ctx.attempt),
    ]
    if ctx.attempt == 1:
        raise OSError("after both")
    return [str(job.id) for job in jobs]
