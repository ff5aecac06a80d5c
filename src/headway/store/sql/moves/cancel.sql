-- ready | scheduled | blocked | waiting -> cancelled, at once; running -> running, asked to stop.
-- Its worker is told by name of the job; a worker that missed it sees the flag at its next heartbeat.
-- A job that changes hands between snapshot and lock is touched by neither branch: the caller asks
-- again (store/scripts.py).
with gone as (
  delete from {schema}.job
  where id = %(id)s::uuid and state in ('r', 's', 'b', 'w')
  returning *
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()),
    {schema}.keep_until(task, 'c', coalesce(%(now)s, now())), expires_at, null,
    claim, attempt, max_attempts, priority, 'c', queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried,
    jsonb_build_object('type', 'Cancelled', 'message', 'cancelled while it waited')
  from gone where {schema}.keep_until(task, 'c', coalesce(%(now)s, now())) is not null
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
tallied as (
  insert into {schema}.tally (queue, outcome, count) select queue, 'c', 1 from gone
),
asked as (
  update {schema}.job set cancelling = true
  where id = %(id)s::uuid and state = 'x'
  returning id
)
select 'cancelled' as came_to from gone
union all
select 'asked' from asked
union all
select 'told' from told where %(done)s::text is not null
  and pg_notify(%(done)s::text, job_id::text) is not null
union all
select 'rung' from asked where %(channel)s::text is not null
  and pg_notify(%(channel)s::text, 'cancel ' || id::text) is not null
union all
select 'rung' from gone where (holds or (ordered and state = 'b')) and %(channel)s::text is not null
  and pg_notify(%(channel)s::text, 'room ' || key) is not null
