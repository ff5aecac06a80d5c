-- ready | scheduled | blocked | waiting -> expired, for what waited longer than its time to live.
-- Never silently: the job is in the archive as expired (I7). A running job does not expire.
with old as materialized (
  select ctid from {schema}.job
  where expires_at is not null and expires_at <= coalesce(%(now)s, now()) and state in ('r', 's', 'b', 'w')
  order by expires_at
  limit %(limit)s
  for update skip locked
),
gone as (
  delete from {schema}.job where ctid = any (array(select ctid from old)) returning *
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()),
    {schema}.keep_until(task, 'e', coalesce(%(now)s, now())), expires_at, null,
    claim, attempt, max_attempts, priority, 'e', queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress,
    jsonb_build_object('type', 'Expired', 'message', 'its time to live passed while it waited')
  from gone where {schema}.keep_until(task, 'e', coalesce(%(now)s, now())) is not null
),
unkept as (
  insert into {schema}.unkept (id, ended_at)
  select id, coalesce(%(now)s, now()) from gone where {schema}.keep_until(task, 'e', coalesce(%(now)s, now())) is null
  on conflict do nothing
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
tallied as (
  insert into {schema}.tally (queue, outcome, count) select queue, 'e', count(*) from gone group by queue
),
rung as (
  select pg_notify(%(done)s::text, job_id::text) from told where %(done)s::text is not null
  union all
  -- One job of each key is enough to find it by: keys are not for everybody to hear.
  select pg_notify(%(channel)s::text, 'room ' || min(id::text))
  from gone where (holds or (ordered and state = 'b')) and %(channel)s::text is not null group by key
)
select (select count(*) from gone), (select count(*) from rung)
