-- running -> succeeded | failed | cancelled.
-- Fenced: id, claim number and state must all be current (I4); what was lost is returned (and who was told).
-- It must not mention worker_id: with no running rows in its statistics the planner would take the
-- index of held jobs and walk every dead entry in it. For the same reason the fence stands in a
-- `case`, which hides from the planner how few rows it may let through: the primary key is the way in. And
-- the ids are given as an array, too: in a quiet hour the table has one page, and the plan made then would
-- join by reading all of it, for as long as it is kept.
-- `h` are jobs that the handler made, which exist only with its success. Room under a key is handed
-- on by admit.sql, in the same transaction.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(i uuid, c integer, s "char", o jsonb, e jsonb, w jsonb, h jsonb)
),
gone as (
  delete from {schema}.job j using verdict v
  where j.id = any (array(select i from verdict)) and j.id = v.i and case when j.claim = v.c and j.state = 'x' then true end
  returning j.id, run_at, created_at, claimed_at, expires_at, worker_id, claim, attempt, max_attempts,
            priority, queue, task, step, input, options, headers, key, key_limit, ordered, unique_key,
            until_claimed, coalesce(v.w, carried) as carried, v.s, v.o, v.e, v.h
),
ended as (
  select g.*, t.dead_letter, t.on_failure,
         case when t.name is not null and s = 'd' then coalesce(%(now)s, now()) + t.keep_succeeded
              when t.name is not null then coalesce(%(now)s, now()) + t.keep_failed
              else coalesce(%(now)s, now()) + case s when 'd' then interval '168 hours' else interval '720 hours' end
         end as kept_until
  from gone g left join {schema}.task t on t.name = g.task
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, result, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()), kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, s, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, o, e
  from ended where kept_until is not null
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error, input, carried)
  select id, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, s, task, queue, step, e,
    case when step <> '' then input end, carried
  from ended where e is not null or (step <> '' and kept_until is not null)
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
tallied as (
  insert into {schema}.tally (queue, outcome, count) select queue, s, count(*) from gone group by queue, s
),
made as (
  select {schema}.enqueue_jobs(h, %(channel)s::text, %(now)s::timestamptz) from gone where h is not null
),
called as (
  select {schema}.after_failure(id, task, step, queue, attempt, input, options, headers, carried, e,
                                dead_letter, on_failure,
                                %(channel)s::text, %(now)s::timestamptz)
  from ended where s = 'f' and (dead_letter is not null or on_failure is not null)
)
select i::text as id, true as lost
from verdict v where not exists (select 1 from gone g where g.id = v.i)
union all
select job_id::text, pg_notify(%(done)s::text, job_id::text) is null
from told where %(done)s::text is not null
union all
select null, pg_notify(%(done)s::text, 'failed') is null
from gone where s = 'f' and %(done)s::text is not null
union all
select null, false from made
union all
select null, false from called
