-- running -> succeeded | failed | cancelled.
-- Fenced: id, claim number and state must all be current (I4); what was lost is returned (and who was told).
-- It must not mention worker_id: with no running rows in its statistics the planner would take the
-- index of held jobs and walk every dead entry in it.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb) as v(i uuid, c integer, s "char", o jsonb, e jsonb)
),
gone as (
  delete from {schema}.job j using verdict v
  where j.id = v.i and j.claim = v.c and j.state = 'x'
  returning j.id, run_at, created_at, claimed_at, expires_at, worker_id, claim, attempt, max_attempts,
            priority, queue, task, step, input, options, headers, v.s, v.o, v.e
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, expires_at, worker_id,
    claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers, result, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()), expires_at, worker_id,
    claim, attempt, max_attempts, priority, s, queue, task, step, input, options, headers, o, e
  from gone
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, step, error)
  select id, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, step, e
  from gone where e is not null
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
)
select i::text as id, true as lost
from verdict v where not exists (select 1 from gone g where g.id = v.i)
union all
select job_id::text, pg_notify(%(done)s::text, job_id::text) is null
from told where %(done)s::text is not null
