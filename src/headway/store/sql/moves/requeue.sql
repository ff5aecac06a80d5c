-- running -> scheduled | ready | blocked: a retry, a snooze, a return.
-- Fenced, found and locked like finish.sql. What was not touched is reported: `lost`, `locked`, or `asked` if
-- somebody asked the job to stop (it must not run again, and the settler cancels it).
-- * `d` is the delay in seconds, `b` gives the attempt back, `f` keeps the job's place in its lane (a return), where
--   a retry goes to the tail.
-- * `k` is what the attempt says about crashes: 1 counts one, 0 changes nothing, null clears the job of suspicion.
-- * Room under a key is kept by what runs again at once and by ordered jobs; others free it. What is under the
--   limit of each key of its handler joins the line again, where it may need another token. So does a return that
--   took one: it has not run and gives it back, but others may have earned theirs meanwhile, and not all of them
--   may start at once.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(i uuid, c bigint, d double precision, b boolean, f boolean, k smallint, e jsonb)
),
held as materialized (
  select j.ctid as at, v.*, exists (select 1 from {schema}.stop_request r where r.job_id = v.i) as asked
  from verdict v join {schema}.job j
    on j.id = any (array(select i from verdict))
    and j.id = v.i and case when j.claim = v.c and j.state = 'x' then true end
  for no key update of j skip locked
),
back as (
  update {schema}.job j
  set state = case when v.d > 0 then 's'::"char" when j.key_limit = 0 and not (v.f and j.rated_in is null) then 'b'::"char" else 'r'::"char" end,
      run_at = coalesce(%(now)s, now()) + make_interval(secs => v.d),
      seq = case when v.f then j.seq else nextval('{schema}.job_seq') end,
      attempt = j.attempt - v.b::integer,
      crashes = coalesce(j.crashes + v.k, 0),
      holds = j.holds and (v.d = 0 and (j.key_limit <> 0 or v.f and j.rated_in is null) or j.ordered),
      worker_id = null,
      progress = null
  from held v
  where j.ctid = v.at and not v.asked
  returning j.id, j.queue, j.priority, j.state, j.claim, j.attempt, j.task, j.step, j.claimed_at, v.b, v.e,
            j.key, case when v.f then j.rated_in end as rated_in
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error)
  select id, claimed_at, coalesce(%(now)s, now()), %(worker)s, claim, attempt + b::integer, 'r', task, queue, step, e
  from back where e is not null
),
given_back as (
  insert into {schema}.start (key, handler, rated_in, started_at, count)
  select key, min(case step when '' then task else task || '/' || step end), rated_in, coalesce(%(now)s, now()), -count(*)
  from back where rated_in is not null group by key, rated_in
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from back where state = 'r' and %(channel)s::text is not null
  group by queue
  union all
  select pg_notify(%(channel)s::text, case state when 's' then 'later' else 'blocked' end)
  from back where state <> 'r' and %(channel)s::text is not null
  group by state
)
select v.i::text as id,
       case when exists (select 1 from held h where h.i = v.i and h.asked) then 'asked'
            when (select true from {schema}.job j where j.id = v.i and j.claim = v.c and j.state = 'x') then 'locked'
            else 'lost' end as came_to
from verdict v where not exists (select 1 from back b where b.id = v.i)
union all
select null, null from rung
