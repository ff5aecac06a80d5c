-- ready | scheduled | blocked | waiting -> cancelled, at once; running -> running, asked to stop.
-- * A waiting job is cancelled if its row can be locked. A running one, and one that somebody else has locked, gets a
--   request (stop_request) instead: it is honoured by the worker that runs it, or by the leader once it waits. So
--   nobody waits here, and a transaction that asks and stays open holds up nobody (G14).
-- * The notification only makes a worker look at the requests sooner (G15).
-- * In the order of ids, so that two who cancel the same jobs do not wait for each other.
with wanted as (
  select id::uuid from jsonb_array_elements_text(%(ids)s::jsonb) as given(id)
),
held as materialized (
  select ctid as at, id from {schema}.job
  where id = any (array(select id from wanted)) and state in ('r', 's', 'b', 'w')
  order by id
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
    jsonb_build_object('type', 'Cancelled', 'message', 'cancelled while it waited')
  from gone where {schema}.keep_until(task, 'c', coalesce(%(now)s, now())) is not null
),
unkept as (
  insert into {schema}.unkept (id, ended_at)
  select id, coalesce(%(now)s, now()) from gone where {schema}.keep_until(task, 'c', coalesce(%(now)s, now())) is null
  on conflict do nothing
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
tallied as (
  insert into {schema}.tally (queue, outcome, count) select queue, 'c', count(*) from gone group by queue
),
answered as (
  delete from {schema}.stop_request r using gone g where r.job_id = g.id
),
asked as (
  -- Also a job that changed between the snapshot and the lock: it was locked, but its new row is not seen here.
  select id from {schema}.job where id = any (array(select id from wanted)) and id not in (select id from gone)
),
requested as (
  insert into {schema}.stop_request (job_id, asked_at)
  select id, coalesce(%(now)s, now()) from asked a
  where not exists (select 1 from {schema}.stop_request r where r.job_id = a.id)
)
select id::text, 'cancelled' as came_to from gone
union all
select id::text, 'asked' from asked
union all
select null, 'told' from told where %(done)s::text is not null
  and pg_notify(%(done)s::text, job_id::text) is not null
union all
select null, 'rung' from asked where %(channel)s::text is not null
  and pg_notify(%(channel)s::text, 'cancel ' || id::text) is not null
union all
select null, 'rung' from gone where (holds or (ordered and state = 'b')) and %(channel)s::text is not null
  and pg_notify(%(channel)s::text, 'room ' || id) is not null
