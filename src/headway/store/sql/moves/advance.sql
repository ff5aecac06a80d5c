-- running -> ready | scheduled | blocked: a flow goes from one step to the next (G5).
-- * It is one write: the next step, its input and the end of this one.
-- * Rows are fenced, found and locked as in requeue.sql, and those that were not touched are reported as there.
-- * Attempts and crashes start at 0 again.
-- * The job keeps its room under a key if the next step has the same key and runs at once, or in order. Otherwise, and
--   under a limit of each key of its handler, it frees the room and waits in the line of the next step.
-- * `children` are jobs that the handler made.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(job_id uuid, claim bigint, step text, delay double precision, queue text, priority smallint,
         max_attempts smallint, key text, key_limit smallint, ordered boolean, input jsonb, carried jsonb, children jsonb)
),
held as materialized (
  select j.ctid as at, v.*, exists (select 1 from {schema}.stop_request r where r.job_id = v.job_id) as asked,
         j.claimed_at, j.worker_id, j.attempt, j.task, j.queue as was_queue, j.step as was_step, j.input as was_input,
         j.carried as was_carried, j.key as was_key, j.key_limit as was_key_limit, j.ordered as was_ordered,
         j.holds and j.key_limit <> 0 and v.key is not distinct from j.key and (v.delay = 0 or v.ordered) as stays
  from verdict v join {schema}.job j
    on j.id = any (array(select job_id from verdict))
    and j.id = v.job_id and case when j.claim = v.claim and j.state = 'x' then true end
  for no key update of j skip locked
),
moved as (
  update {schema}.job j
  set state = case when h.delay > 0 then 's'::"char" when h.key is not null and not h.stays then 'b'::"char"
              else 'r'::"char" end,
      run_at = coalesce(%(now)s, now()) + make_interval(secs => h.delay),
      seq = nextval('{schema}.job_seq'), attempt = 0, crashes = 0, max_attempts = h.max_attempts, queue = h.queue,
      priority = h.priority, key = h.key, key_limit = h.key_limit, ordered = h.ordered, holds = h.stays, step = h.step,
      input = h.input, carried = h.carried, worker_id = null, progress = null
  from held h where j.ctid = h.at and not h.asked
  returning j.id, j.queue, j.priority, j.state
),
done as materialized (
  select h.* from held h where h.job_id in (select id from moved)
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, next_step, input, carried, key, key_limit, ordered)
  select job_id, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, 'n', task, was_queue, was_step, step,
    was_input, was_carried, was_key, was_key_limit, was_ordered
  from done
),
made as (
  select {schema}.enqueue_jobs(children, %(channel)s::text, %(now)s::timestamptz) from done where children is not null
),
notified as (
  {part notify_woken moved}
)
select v.job_id::text as id,
       case when exists (select 1 from held h where h.job_id = v.job_id and h.asked) then 'asked'
            when (select true from {schema}.job j where j.id = v.job_id and j.claim = v.claim and j.state = 'x') then 'locked'
            else 'lost' end as came_to
from verdict v where not exists (select 1 from moved m where m.id = v.job_id)
union all
select null, null from notified
union all
select null, null from made
