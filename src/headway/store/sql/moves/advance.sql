-- running -> ready | scheduled | blocked: a flow goes from one step to the next (G5).
-- One write: the next step, its input and the end of this one. Fenced, and found, like finish.sql; a job that was
-- asked to stop is left alone and reported, as in requeue.sql. Attempts start anew. Room under a key
-- is kept if the next step runs under the same key and at once, or in order; else, and under a limit of each
-- key of its handler, it is freed, and the step waits in its line. `h` are jobs that the handler made.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(i uuid, c integer, t text, d double precision, q text, p smallint, m smallint, k text, l smallint,
         o boolean, n jsonb, w jsonb, h jsonb)
),
done as materialized (
  select j.id, j.claimed_at, j.worker_id, j.claim, j.attempt, j.task, j.queue, j.step, j.input, j.carried, v.h,
         v.t, v.d, v.q, v.p, v.m, v.k, v.l, v.o, v.n, v.w,
         j.holds and j.key_limit <> 0 and v.k is not distinct from j.key and (v.d = 0 or v.o) as stays
  from verdict v join {schema}.job j
    on j.id = any (array(select i from verdict))
    and j.id = v.i and case when j.claim = v.c and j.state = 'x' and not j.cancelling then true end
  for no key update of j
),
moved as (
  update {schema}.job j
  set state = case when d.d > 0 then 's'::"char" when d.k is not null and not d.stays then 'b'::"char"
              else 'r'::"char" end,
      run_at = coalesce(%(now)s, now()) + make_interval(secs => d.d),
      seq = nextval('{schema}.job_seq'), attempt = 0, max_attempts = d.m, queue = d.q, priority = d.p,
      key = d.k, key_limit = d.l, ordered = d.o, holds = d.stays, step = d.t, input = d.n, carried = d.w,
      worker_id = null, progress = null
  from done d where j.id = any (array(select id from done)) and j.id = d.id
  returning j.id, j.queue, j.priority, j.state
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, next_step, input, carried)
  select id, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, 'n', task, queue, step, t, input, carried
  from done
),
made as (
  select {schema}.enqueue_jobs(h, %(channel)s::text, %(now)s::timestamptz) from done where h is not null
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from moved where state = 'r' and %(channel)s::text is not null
  group by queue
  union all
  select pg_notify(%(channel)s::text, case state when 's' then 'later' else 'blocked' end)
  from moved where state <> 'r' and %(channel)s::text is not null
  group by state
)
select i::text as id
from verdict v where not exists (select 1 from done d where d.id = v.i)
union all
select null from rung
union all
select null from made
