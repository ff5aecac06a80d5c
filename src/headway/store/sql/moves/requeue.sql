-- running -> scheduled | ready | blocked: a retry, a snooze or a release.
-- * Rows are fenced and found as in finish.sql. Those that were not touched are reported: `lost`, `locked`, or `asked`
--   if somebody asked the job to stop. Such a job must not run again, and the settler cancels it.
-- * `delay` is in seconds. `given_back` gives the attempt back. `keeps_place` keeps the job's place in its lane (a
--   release); a retry goes to the tail.
-- * `new_crashes` of 1 counts a crash and 0 changes nothing. Null clears the job of suspicion.
-- * A job that runs again at once, and an ordered job, keeps its room under a key. Others free it.
-- * A job under a limit of each key of its handler joins its line again, because it may need another token. So does a
--   release that took a token: it gives the token back, but others may have earned theirs meanwhile, and not all of
--   them may start at once.
with verdict as (
  select * from jsonb_to_recordset(%(verdicts)s::jsonb)
    as v(job_id uuid, claim bigint, delay double precision, given_back boolean, keeps_place boolean,
         new_crashes smallint, error jsonb)
),
held as materialized (
  select j.ctid as at, v.*, exists (select 1 from {schema}.stop_request r where r.job_id = v.job_id) as asked
  from verdict v join {schema}.job j
    on j.id = any (array(select job_id from verdict))
    and j.id = v.job_id and case when j.claim = v.claim and j.state = 'x' then true end
  for no key update of j skip locked
),
back as (
  update {schema}.job j
  set state = case when v.delay > 0 then 's'::"char" when j.key_limit = 0 and not (v.keeps_place and j.rated_in is null) then 'b'::"char" else 'r'::"char" end,
      run_at = coalesce(%(now)s, now()) + make_interval(secs => v.delay),
      seq = case when v.keeps_place then j.seq else nextval('{schema}.job_seq') end,
      attempt = j.attempt - v.given_back::integer,
      crashes = coalesce(j.crashes + v.new_crashes, 0),
      holds = j.holds and (v.delay = 0 and (j.key_limit <> 0 or v.keeps_place and j.rated_in is null) or j.ordered),
      worker_id = null,
      progress = null
  from held v
  where j.ctid = v.at and not v.asked
  returning j.id, j.queue, j.priority, j.state, j.claim, j.attempt, j.task, j.step, j.claimed_at, v.given_back, v.error,
            j.key, case when v.keeps_place then j.rated_in end as rated_in
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, outcome,
    task, queue, step, error)
  select id, claimed_at, coalesce(%(now)s, now()), %(worker)s, claim, attempt + given_back::integer, 'r', task, queue, step, error
  from back where error is not null
),
given_back as (
  insert into {schema}.start (key, handler, rated_in, started_at, count)
  select key, min({part handler}), rated_in, coalesce(%(now)s, now()), -count(*)
  from back where rated_in is not null group by key, rated_in
),
notified as (
  {part notify_woken back}
)
select v.job_id::text as id,
       case when exists (select 1 from held h where h.job_id = v.job_id and h.asked) then 'asked'
            when (select true from {schema}.job j where j.id = v.job_id and j.claim = v.claim and j.state = 'x') then 'locked'
            else 'lost' end as came_to
from verdict v where not exists (select 1 from back b where b.id = v.job_id)
union all
select null, null from notified
