-- running -> ready | scheduled | blocked | failed | cancelled, for the jobs of workers whose lease ran out.
-- What becomes of a job depends on how its worker was lost (G6):
-- * The worker crashed, or is silent: one of its jobs may have caused it, and nobody knows which. All of them are
--   suspects: the attempt is given back, the crash is counted, and the job comes back after a back-off with jitter
--   (up to about a minute).
--   Workers run suspects in isolation. After `max_crashes` in a row the job fails.
-- * The process survived and only its lease was lost (register_worker.sql): the attempt is given back.
-- * A consumer in SQL let its lease run out: the attempt stays spent, and the last one fails the job.
-- A job that was asked to stop is cancelled. Rows that the late worker is settling at this moment are skipped: if it
-- wins, its claim was still current. Rows of lost workers stay for a while (forget.sql), so that a claim which was
-- under way when the lease ran out is found by the next round. What runs again at once keeps its room under a key,
-- and so does an ordered job; what is under a limit of each key of its handler joins the line, where it may need a
-- token.
with dead as (
  select id, name, trouble, survived, version = 'sql' as consumes from {schema}.worker where expires_at <= coalesce(%(now)s, now())
),
-- Their handlers' transactions may still be open (a stopped process, a cut network), with locks that the
-- next attempt needs, or on the job itself. They are known by name (store/transactions.py).
cut_off as (
  select pg_terminate_backend(a.pid)
  from dead join pg_stat_activity a
    on a.application_name = left('headway handlers of worker ' || dead.id || ' in {plain}', 63)
  where a.usename = current_user and a.datname = current_database()
),
locked as materialized (
  select j.*, dead.name as worker_name, dead.trouble, not (dead.survived or dead.consumes) as crashed, dead.consumes
  from dead cross join lateral (
    select ctid as at, id, worker_id, attempt, max_attempts, crashes, limited, queue, task, step, options, key, holds
    from {schema}.job where worker_id = dead.id
    limit %(limit)s
    for update skip locked) j
),
held as materialized (
  select l.*, exists (select 1 from {schema}.stop_request r where r.job_id = l.id) as cancelling,
         case when crashed then l.crashes + 1 >= coalesce(case when l.options #>> '{retry,max_crashes}' ~ '^[0-9]{1,4}$' then (l.options #>> '{retry,max_crashes}')::integer end,
                                                       t.max_crashes, 3)
              else consumes and attempt >= l.max_attempts end as over
  from locked l left join {schema}.task t on t.name = case l.step when '' then l.task else l.task || '/' || l.step end
),
gone as (
  delete from {schema}.job j using held h
  where j.ctid = h.at and (h.cancelling or h.over)
  returning j.*, h.cancelling
),
back as (
  update {schema}.job j
  set state = case when h.crashed then 's'::"char" when j.key_limit = 0 then 'b'::"char" else 'r'::"char" end,
      holds = j.holds and (j.ordered or j.key_limit <> 0 and not h.crashed),
      seq = nextval('{schema}.job_seq'), worker_id = null, progress = null,
      attempt = j.attempt - (not h.consumes)::integer, crashes = j.crashes + h.crashed::integer,
      run_at = coalesce(%(now)s, now())
        + case when h.crashed then make_interval(secs => 2 ^ least(j.crashes, 6) * (0.5 + random() / 2)) else interval '0' end
  from held h
  where j.ctid = h.at and not h.cancelling and not h.over
  returning j.*
),
ended as (
  select j.id, j.claimed_at, j.claim, j.attempt, j.task, j.queue, j.step, j.input, j.carried, j.outcome,
         held.worker_id as lost_by,
         jsonb_build_object('type', 'WorkerLost', 'message',
           'worker ' || held.worker_id || ' (' || held.worker_name || ') ' || case
             when held.crashed then 'was lost while it ran this job: it crashed, or could not be heard for its lease'
             when held.consumes then 'did not settle this job within its lease'
             else 'lost its lease and gave this job up' end || coalesce('; ' || held.trouble, '')) as error
  from (select id, claimed_at, claim, attempt, task, queue, step, input, carried,
               case when cancelling then 'c' else 'f' end as outcome from gone
        union all
        select b.id, b.claimed_at, b.claim, h.attempt, b.task, b.queue, b.step, null, null, 'r' from back b join held h using (id)) j
  join held using (id)
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, error)
  select g.id, run_at, created_at, g.claimed_at, coalesce(%(now)s, now()),
    {schema}.keep_until(g.task, 'f', coalesce(%(now)s, now())), expires_at, g.worker_id,
    g.claim, g.attempt, max_attempts, g.priority, case when cancelling then 'c'::"char" else 'f'::"char" end,
    g.queue, g.task, g.step, g.input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, g.carried, g.progress, e.error
  from gone g join ended e using (id)
  where {schema}.keep_until(g.task, 'f', coalesce(%(now)s, now())) is not null
),
unkept as (
  insert into {schema}.unkept (id, ended_at)
  select id, coalesce(%(now)s, now()) from gone where {schema}.keep_until(task, 'f', coalesce(%(now)s, now())) is null
  on conflict do nothing
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error, input, carried, key, key_limit, ordered)
  select e.id, e.claimed_at, coalesce(%(now)s, now()), lost_by, e.claim, e.attempt, outcome::"char", e.task, e.queue,
    e.step, error,
    case when e.step <> '' then e.input end, e.carried, g.key, g.key_limit, g.ordered
  from ended e left join gone g using (id)
),
answered as (
  delete from {schema}.stop_request r using gone g where r.job_id = g.id
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
  select pg_notify(%(channel)s::text, case state when 's' then 'later' else 'blocked' end)
  from back where state <> 'r' and %(channel)s::text is not null
  group by state
  union all
  select pg_notify(%(channel)s::text, 'room ' || min(h.id::text))
  from held h left join back b using (id)
  where h.holds and not coalesce(b.holds, false) and %(channel)s::text is not null group by h.key
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
select id::text, lost_by, outcome as came_to, task, step, (select worker_name from held h where h.id = ended.id) as worker,
       (select crashed from held h where h.id = ended.id) as crashed
from ended
union all
select null, null, null, null, null, null, count(*) > 0 from (select from rung union all select from called union all select from cut_off) done
