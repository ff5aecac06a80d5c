-- (nothing) -> ready | scheduled | blocked. Everyone who makes a job does it by this one function
-- (functions/3_jobs.sql): the engine, every driver, and SQL itself.
-- What comes back are the jobs with a unique key that another job had: who has it.
select asked::text, id::text from {schema}.enqueue_jobs(%(jobs)s::jsonb, %(channel)s::text, %(now)s::timestamptz)
