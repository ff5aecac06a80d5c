-- ready | scheduled | blocked | waiting -> cancelled, for what waits in a queue, or there of one task.
-- A thousand rows of the table at a time (a literal: the planner must know that they are few), by the primary
-- key behind `after`: however few of them are meant, the statement is short, and the caller asks again
-- behind the last one. Only what was made before `before`,
-- so that who makes jobs meanwhile does not keep it going. Rows that someone else has locked change hands at
-- this moment: they are passed by, and the caller looks again (store/scripts.py).
with walked as materialized (
  select id, ctid as at, queue = %(queue)s::text and coalesce(task = %(task)s::text, %(task)s::text is null)
         and state in ('r', 's', 'b', 'w')
         and created_at <= coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as meant
  from {schema}.job where id > %(after)s::uuid
  order by id limit 1000
),
held as materialized (
  select ctid as at from {schema}.job where ctid = any (array(select at from walked where meant))
  for update skip locked
),
gone as (
  delete from {schema}.job where ctid = any (array(select at from held)) returning *
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()),
    {schema}.keep_until(task, 'c', coalesce(%(now)s, now())), expires_at, null,
    claim, attempt, max_attempts, priority, 'c', queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress,
    jsonb_build_object('type', 'Cancelled', 'message', 'its queue was purged while it waited')
  from gone where {schema}.keep_until(task, 'c', coalesce(%(now)s, now())) is not null
),
unkept as (
  insert into {schema}.unkept (id, ended_at)
  select id, coalesce(%(now)s, now()) from gone where {schema}.keep_until(task, 'c', coalesce(%(now)s, now())) is null
  on conflict do nothing
),
tallied as (
  insert into {schema}.tally (queue, outcome, count) select queue, 'c', count(*) from gone group by queue
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
rung as (
  select pg_notify(%(done)s::text, job_id::text) from told where %(done)s::text is not null
  union all
  -- One job of each key is enough to find it by: keys are not for everybody to hear.
  select pg_notify(%(channel)s::text, 'room ' || min(id::text))
  from gone where (holds or (ordered and state = 'b')) and %(channel)s::text is not null group by key
)
select (select count(*) from gone) as changed, (select count(*) from walked where meant) as meant,
       (select id from walked order by id desc limit 1) as last,
       coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as before, (select count(*) from rung) as rung
