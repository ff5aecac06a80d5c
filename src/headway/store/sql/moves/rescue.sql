-- running -> ready | blocked | failed | cancelled, for the jobs of workers whose lease ran out.
-- A crash counts: the attempt stays spent, and the last one fails the job (G6). Rows that the late
-- worker is settling at this moment are skipped: if it wins, its claim was still current.
-- Rows of lost workers stay for a while (forget.sql), so that a claim which was under way when the
-- lease ran out is found by the next round. What runs again keeps its room under a key,
-- but for what is under a limit of each key of its handler: it joins the line, where it may need a token.
with dead as (
  select id, name from {schema}.worker where expires_at <= coalesce(%(now)s, now())
),
-- Their handlers' transactions may still be open (a stopped process, a cut network), with locks that the
-- next attempt needs, or on the job itself. They are known by name (store/transactions.py).
cut_off as (
  select pg_terminate_backend(a.pid)
  from dead join pg_stat_activity a
    on a.application_name = left('headway handlers of worker ' || dead.id || ' in {plain}', 63)
  where a.usename = current_user and a.datname = current_database()
),
held as materialized (
  select j.*, dead.name as worker_name
  from dead cross join lateral (
    select ctid as at, id, worker_id, attempt, max_attempts, cancelling, limited, queue, task, step
    from {schema}.job where worker_id = dead.id
    limit %(limit)s
    for update skip locked) j
),
gone as (
  delete from {schema}.job
  where ctid = any (array(select at from held where cancelling or attempt >= max_attempts))
  returning *
),
back as (
  update {schema}.job
  set state = case when key_limit = 0 then 'b'::"char" else 'r'::"char" end, holds = holds and key_limit <> 0,
      seq = nextval('{schema}.job_seq'), worker_id = null, progress = null,
      run_at = coalesce(%(now)s, now())
  where ctid = any (array(select at from held where not cancelling and attempt < max_attempts))
  returning *
),
ended as (
  select j.id, j.claimed_at, j.claim, j.attempt, j.task, j.queue, j.step, j.input, j.carried, j.outcome,
         held.worker_id as lost_by,
         jsonb_build_object('type', 'WorkerLost', 'message',
           'worker ' || held.worker_id || ' (' || held.worker_name || ') stopped without finishing this job') as error
  from (select id, claimed_at, claim, attempt, task, queue, step, input, carried,
               case when cancelling then 'c' else 'f' end as outcome from gone
        union all
        select id, claimed_at, claim, attempt, task, queue, step, null, null, 'r' from back) j
  join held using (id)
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, error)
  select g.id, run_at, created_at, g.claimed_at, coalesce(%(now)s, now()),
    {schema}.keep_until(g.task, 'f', coalesce(%(now)s, now())), expires_at, g.worker_id,
    g.claim, g.attempt, max_attempts, g.priority, case when cancelling then 'c'::"char" else 'f'::"char" end,
    g.queue, g.task, g.step, g.input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, g.carried, e.error
  from gone g join ended e using (id)
  where {schema}.keep_until(g.task, 'f', coalesce(%(now)s, now())) is not null
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error, input, carried)
  select id, claimed_at, coalesce(%(now)s, now()), lost_by, claim, attempt, outcome::"char", task, queue,
    step, error,
    case when step <> '' then input end, carried
  from ended
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
tallied as (
  insert into {schema}.tally (queue, outcome, count)
  select queue, case when cancelling then 'c'::"char" else 'f'::"char" end, count(*)
  from gone group by queue, cancelling
),
called as (
  select {schema}.after_failure(g.id, g.task, g.step, g.queue, g.attempt, g.input, g.options, g.headers,
                                g.carried, e.error,
                                t.dead_letter, t.on_failure, %(channel)s::text, %(now)s::timestamptz)
  from gone g join ended e using (id) join {schema}.task t on t.name = g.task
  where not g.cancelling and (t.dead_letter is not null or t.on_failure is not null)
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from back where state = 'r' and %(channel)s::text is not null
  group by queue
  union all
  select pg_notify(%(channel)s::text, 'blocked') from back where state = 'b' and %(channel)s::text is not null
  group by state
  union all
  select pg_notify(%(channel)s::text, 'room ' || key)
  from gone where holds and %(channel)s::text is not null group by key
  union all
  -- Someone may have waited for the room that this frees under a limit.
  select pg_notify(%(channel)s::text, 'open ' || name) from (
    select 'queue ' || queue as name from held where limited
    union
    select 'task ' || case step when '' then task else task || '/' || step end from held where limited) freed
  where %(channel)s::text is not null
  union all
  select pg_notify(%(done)s::text, job_id::text) from told where %(done)s::text is not null
  union all
  select pg_notify(%(done)s::text, 'failed') from gone where not cancelling and %(done)s::text is not null
)
select (select count(*) from back), (select count(*) from gone), (select count(*) from rung),
       (select count(*) from called), (select count(*) from cut_off)
