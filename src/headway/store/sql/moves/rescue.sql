-- running -> ready | scheduled | blocked | failed | cancelled, for the jobs of workers whose lease has run out.
-- * The worker crashed or is silent (G6): one of its jobs may have caused it, and nobody knows which. All of them are
--   suspects. The attempt is given back, the crash is counted, and the job comes back after a back-off with jitter of up
--   to about a minute. Workers run suspects in isolation. After `max_crashes` in a row the job fails.
-- * The process survived and lost only its lease (register_worker.sql): the attempt is given back.
-- * A consumer in SQL let its lease run out: the attempt stays spent, and the last one fails the job.
-- * A job that was asked to stop is cancelled.
-- * Locked rows are skipped: the late worker is settling them. If it commits, its claim was still current.
-- * Rows of lost workers stay for a while (clean_up.sql). So a claim that was under way when the lease ran out is found
--   by the next sweep.
-- * A job that runs again at once, and an ordered job, keeps its room under a key. A job under a limit of each key of its
--   handler joins the line, because it may need a token.
with dead as (
  select id, name, trouble, survived, version = 'sql' as consumes from {schema}.worker where expires_at <= coalesce(%(now)s, now())
),
-- Transactions of their handlers may still be open (a stopped process, a cut network). They may lock the job, or rows
-- that the next attempt needs. Their names are those of store/connections/handler_transactions.py.
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
  from locked l left join {schema}.task t on t.name = {part handler l}
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
lost as (
  select j.id, j.claimed_at, j.claim, j.attempt, j.task, j.queue, j.step, j.input, j.carried, j.outcome,
         held.worker_id as lost_by,
         jsonb_build_object('type', 'WorkerLost', 'message',
           'worker ' || held.worker_id || ' (' || held.worker_name || ') ' || case
             when held.crashed then 'was lost while it ran this job: it crashed, or did not renew its lease'
             when held.consumes then 'did not settle this job within its lease'
             else 'lost its lease and gave this job up' end || coalesce('; ' || held.trouble, '')) as error
  from (select id, claimed_at, claim, attempt, task, queue, step, input, carried,
               case when cancelling then 'c' else 'f' end as outcome from gone
        union all
        select b.id, b.claimed_at, b.claim, h.attempt, b.task, b.queue, b.step, null, null, 'r' from back b join held h using (id)) j
  join held using (id)
),
ended as (
  select g.*, case when g.cancelling then 'c'::"char" else 'f'::"char" end as ended_as,
         {part kept_until 'f'} as kept_until, null::jsonb as result, lost.error
  from gone g join lost using (id) left join {schema}.task t on t.name = g.task
),
{part end_jobs},
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error, input, carried, key, key_limit, ordered)
  select e.id, e.claimed_at, coalesce(%(now)s, now()), lost_by, e.claim, e.attempt, outcome::"char", e.task, e.queue,
    e.step, error,
    case when e.step <> '' then e.input end, e.carried, g.key, g.key_limit, g.ordered
  from lost e left join gone g using (id)
),
answered as (
  delete from {schema}.stop_request r using gone g where r.job_id = g.id
),
called as (
  select {schema}.after_failure(g.id, g.task, g.step, g.queue, g.attempt, g.input, g.options, g.headers,
                                g.carried, g.error,
                                t.dead_letter, t.on_failure, %(channel)s::text, %(now)s::timestamptz)
  from ended g join {schema}.task t on t.name = g.task
  where not g.cancelling and (t.dead_letter is not null or t.on_failure is not null)
),
notified as (
  {part notify_woken back}
  union all
  select pg_notify(%(channel)s::text, 'room ' || min(h.id::text))
  from held h left join back b using (id)
  where h.holds and not coalesce(b.holds, false) and %(channel)s::text is not null group by h.key
  union all
  -- Workers may have waited for the room that this frees under a limit.
  select pg_notify(%(channel)s::text, 'open ' || name) from (
    select 'queue ' || queue as name from held where limited
    union
    select 'task ' || {part handler} from held where limited) freed
  where %(channel)s::text is not null
  union all
  {part notify_awaited}
  union all
  select pg_notify(%(done)s::text, 'failed') from gone where not cancelling and %(done)s::text is not null
)
select id::text, lost_by, outcome as came_to, task, step, (select worker_name from held h where h.id = lost.id) as worker,
       (select crashed from held h where h.id = lost.id) as crashed
from lost
union all
select null, null, null, null, null, null, count(*) > 0 from (select from notified union all select from called union all select from cut_off) done
