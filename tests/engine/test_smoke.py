from headway import Headway


async def test_a_job_runs_and_its_result_is_kept(hw: Headway, start) -> None:
    @hw.task
    async def add(a: int, b: int) -> int:
        return a + b

    start()
    job = await add.enqueue(1, b=2)
    assert await job.result(timeout="10s") == 3
