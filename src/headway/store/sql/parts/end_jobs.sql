-- The records that every ended job leaves, as further parts of the `with` of a move that ends jobs.
-- * `gone` are the deleted rows of `job`. `ended` has all of them with `ended_as`, `kept_until`, `result` and `error`.
-- * A job that is not kept leaves its id for an hour: a repeated enqueue of this id makes no new job.
-- * `was_awaited` are the ended jobs whose end somebody awaits. The move notifies them (notify_awaited).
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, result, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()), kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, ended_as, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, result, error
  from ended where kept_until is not null
),
unkept as (
  insert into {schema}.unkept (id, ended_at) select id, coalesce(%(now)s, now()) from ended where kept_until is null
  on conflict do nothing
),
was_awaited as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id, a.follow_up
),
tallied as (
  insert into {schema}.tally (queue, outcome, count) select queue, ended_as, count(*) from ended group by queue, ended_as
)
