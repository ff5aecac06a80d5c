-- running -> succeeded | failed | cancelled.
-- Fenced (I4): id, claim number and state must all be current.
-- * Nobody waits for a stranger (G14). A row that somebody locked since it was claimed shows it in its xmax: 0, or
--   the transaction of the claim itself, if nobody did. Such a row is left alone and reported as `locked`, and the
--   settler sends its verdict again with `careful`: then rows are locked first, and those that somebody else has are
--   skipped. To lock every row first would cost a third more.
-- * A cancellation takes effect only if somebody asked for it (stop_request); else it is reported as `unasked`. A
--   job that fails after it was asked to stop ends as cancelled.
-- * `worker_id` is not mentioned: with no running rows in its statistics the planner would take the index of held
--   jobs and walk every dead entry in it. The fence stands in a `case`, which hides from the planner how few rows it
--   lets through, and the ids are given as an array, too: so the primary key is the way in, also by a plan that was
--   made while the table had one page. For the same reason the answer asks for a row and not whether one exists:
--   of an `exists` the planner would make a hash of the whole table.
-- * `h` are jobs that the handler made, which exist only with its success. admit.sql gives the room that
--   this frees under a key to the next job, in the same transaction.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(i uuid, c bigint, s "char", o jsonb, e jsonb, w jsonb, h jsonb)
),
held as materialized (
  select j.ctid as at from verdict v join {schema}.job j
    on j.id = any (array(select i from verdict))
    and j.id = v.i and case when j.claim = v.c and j.state = 'x' then true end
  where %(careful)s::boolean
  for update of j skip locked
),
gone as (
  delete from {schema}.job j using verdict v
  where j.id = any (array(select i from verdict)) and j.id = v.i
    and case when j.claim = v.c and j.state = 'x'
              and (j.xmax = 0 or j.xmax = j.xmin or j.ctid = any (array(select at from held)))
              and (v.s <> 'c' or exists (select 1 from {schema}.stop_request r where r.job_id = v.i)) then true end
  returning j.id, run_at, created_at, claimed_at, expires_at, worker_id, claim, attempt, max_attempts,
            priority, queue, task, step, input, options, headers, key, key_limit, ordered, unique_key,
            until_claimed, coalesce(v.w, carried) as carried, progress,
            case when v.s = 'f' and exists (select 1 from {schema}.stop_request r where r.job_id = v.i)
                 then 'c'::"char" else v.s end as s, v.o, v.e, v.h
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
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, result, error)
  select id, run_at, created_at, claimed_at, coalesce(%(now)s, now()), kept_until, expires_at,
    worker_id, claim, attempt, max_attempts, priority, s, queue, task, step, input, options, headers,
    key, key_limit, ordered, unique_key, until_claimed, carried, progress, o, e
  from ended where kept_until is not null
),
unkept as (
  insert into {schema}.unkept (id, ended_at) select id, coalesce(%(now)s, now()) from ended where kept_until is null
  on conflict do nothing
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error, input, carried, key, key_limit, ordered)
  select id, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, s, task, queue, step, e,
    case when step <> '' then input end, carried, key, key_limit, ordered
  from ended where e is not null or (step <> '' and kept_until is not null)
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
answered as (
  delete from {schema}.stop_request r using gone g where g.s <> 'd' and r.job_id = g.id
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
select v.i::text as id,
       case when (select true from {schema}.job j where j.id = v.i and j.claim = v.c and j.state = 'x') is null then 'lost'
            when v.s <> 'c' or exists (select 1 from {schema}.stop_request r where r.job_id = v.i) then 'locked'
            else 'unasked' end as came_to
from verdict v where not exists (select 1 from gone g where g.id = v.i)
union all
select null, pg_notify(%(done)s::text, job_id::text)::text
from told where %(done)s::text is not null
union all
select null, pg_notify(%(done)s::text, 'failed')::text
from gone where s = 'f' and %(done)s::text is not null
union all
select null, null from made
union all
select null, null from called
