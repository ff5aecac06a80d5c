-- running -> ready | scheduled | blocked: a flow goes from one step to the next (G5).
-- One write: the next step, its input and the end of this one. Fenced, found, locked and reported like requeue.sql.
-- Attempts and crashes start anew. Room under a key is kept if the next step runs under the same key and at once,
-- or in order; else, and under a limit of each key of its handler, it is freed, and the step waits in its line.
-- `h` are jobs that the handler made.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(i uuid, c bigint, t text, d double precision, q text, p smallint, m smallint, k text, l smallint,
         o boolean, n jsonb, w jsonb, h jsonb)
),
held as materialized (
  select j.ctid as at, v.*, exists (select 1 from {schema}.stop_request r where r.job_id = v.i) as asked,
         j.claimed_at, j.worker_id, j.claim, j.attempt, j.task, j.queue, j.step, j.input, j.carried, j.key, j.key_limit,
         j.ordered, j.holds and j.key_limit <> 0 and v.k is not distinct from j.key and (v.d = 0 or v.o) as stays
  from verdict v join {schema}.job j
    on j.id = any (array(select i from verdict))
    and j.id = v.i and case when j.claim = v.c and j.state = 'x' then true end
  for no key update of j skip locked
),
moved as (
  update {schema}.job j
  set state = case when d.d > 0 then 's'::"char" when d.k is not null and not d.stays then 'b'::"char"
              else 'r'::"char" end,
      run_at = coalesce(%(now)s, now()) + make_interval(secs => d.d),
      seq = nextval('{schema}.job_seq'), attempt = 0, crashes = 0, max_attempts = d.m, queue = d.q, priority = d.p,
      key = d.k, key_limit = d.l, ordered = d.o, holds = d.stays, step = d.t, input = d.n, carried = d.w,
      worker_id = null, progress = null
  from held d where j.ctid = d.at and not d.asked
  returning j.id, j.queue, j.priority, j.state
),
done as materialized (
  select h.* from held h where h.i in (select id from moved)
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, next_step, input, carried, key, key_limit, ordered)
  select i, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, 'n', task, queue, step, t, input, carried,
    key, key_limit, ordered
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
select v.i::text as id,
       case when exists (select 1 from held h where h.i = v.i and h.asked) then 'asked'
            when (select true from {schema}.job j where j.id = v.i and j.claim = v.c and j.state = 'x') then 'locked'
            else 'lost' end as came_to
from verdict v where not exists (select 1 from moved m where m.id = v.i)
union all
select null, null from rung
union all
select null, null from made
