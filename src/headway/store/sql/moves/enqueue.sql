-- (nothing) -> ready | scheduled | blocked | waiting.
-- * Every path that makes jobs calls this one function (functions/3_jobs.sql): the engine, every driver, and SQL.
-- * It returns the jobs that were not made because another job has their unique key, and that other job.
select asked::text, id::text from {schema}.enqueue_jobs(%(jobs)s::jsonb, %(channel)s::text, %(now)s::timestamptz)
