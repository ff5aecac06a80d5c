-- running -> succeeded | failed | cancelled.
-- * Fenced (I4): id, claim number and state must all be current.
-- * It waits for nobody (G14). A row that somebody has locked since its claim shows it in xmax, which is otherwise 0 or
--   the transaction of the claim. Such a row is left alone and reported as `locked`, and the settler sends its verdict
--   again with `careful`: then rows are locked first, with skip locked. Locking every row first would cost a third more.
-- * A cancellation takes effect only if somebody asked for it (stop_request); otherwise it is reported as `unasked`. A
--   job that fails after it was asked to stop ends as cancelled.
-- * The condition does not name worker_id. While the statistics know of no running rows, the planner would take the
--   index of held jobs and walk its dead entries.
-- * The fence is in a `case`, which hides from the planner how few rows pass it, and the ids are also given as an array.
--   So the primary key is used, even by a plan made while the table had one page.
-- * The answer selects a row of job instead of testing `exists`, of which the planner would make a hash of the table.
-- * `children` are jobs that the handler made. They exist only if it succeeds.
-- * admit.sql gives the room that this frees under a key to the next job, in the same transaction.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(job_id uuid, claim bigint, state "char", result jsonb, error jsonb, carried jsonb, children jsonb)
),
held as materialized (
  select j.ctid as at from verdict v join {schema}.job j
    on j.id = any (array(select job_id from verdict))
    and j.id = v.job_id and case when j.claim = v.claim and j.state = 'x' then true end
  where %(careful)s::boolean
  for update of j skip locked
),
gone as (
  delete from {schema}.job j using verdict v
  where j.id = any (array(select job_id from verdict)) and j.id = v.job_id
    and case when j.claim = v.claim and j.state = 'x'
              and (j.xmax = 0 or j.xmax = j.xmin or j.ctid = any (array(select at from held)))
              and (v.state <> 'c' or exists (select 1 from {schema}.stop_request r where r.job_id = v.job_id)) then true end
  returning j.id, run_at, created_at, claimed_at, expires_at, worker_id, j.claim, attempt, max_attempts,
            priority, queue, task, step, input, options, headers, key, key_limit, ordered, unique_key,
            until_claimed, coalesce(v.carried, j.carried) as carried, progress,
            case when v.state = 'f' and exists (select 1 from {schema}.stop_request r where r.job_id = v.job_id)
                 then 'c'::"char" else v.state end as ended_as, v.result, v.error, v.children
),
ended as (
  select g.*, t.dead_letter, t.on_failure,
         {part kept_until g.ended_as} as kept_until
  from gone g left join {schema}.task t on t.name = g.task
),
{part end_jobs},
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error, input, carried, key, key_limit, ordered)
  select id, claimed_at, coalesce(%(now)s, now()), worker_id, claim, attempt, ended_as, task, queue, step, error,
    case when step <> '' then input end, carried, key, key_limit, ordered
  from ended where error is not null or (step <> '' and kept_until is not null)
),
answered as (
  delete from {schema}.stop_request r using gone g where g.ended_as <> 'd' and r.job_id = g.id
),
made as (
  select {schema}.enqueue_jobs(children, %(channel)s::text, %(now)s::timestamptz) from gone where children is not null
),
called as (
  select {schema}.after_failure(id, task, step, queue, attempt, input, options, headers, carried, error,
                                dead_letter, on_failure,
                                %(channel)s::text, %(now)s::timestamptz)
  from ended where ended_as = 'f' and (dead_letter is not null or on_failure is not null)
)
select v.job_id::text as id,
       case when (select true from {schema}.job j where j.id = v.job_id and j.claim = v.claim and j.state = 'x') is null then 'lost'
            when v.state <> 'c' or exists (select 1 from {schema}.stop_request r where r.job_id = v.job_id) then 'locked'
            else 'unasked' end as came_to
from verdict v where not exists (select 1 from gone g where g.id = v.job_id)
union all
select null, sent::text from (
  {part notify_awaited}) awaiting(sent)
union all
select null, pg_notify(%(done)s::text, 'failed')::text
from gone where ended_as = 'f' and %(done)s::text is not null
union all
select null, null from made
union all
select null, null from called
