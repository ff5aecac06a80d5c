-- ready | scheduled | blocked | waiting -> cancelled, at once; running -> running, asked to stop.
-- * A waiting job is cancelled if its row can be locked. A running job, and one that is locked, gets a request
--   (stop_request). The worker that runs it honours the request, or the leader does once the job waits. So this
--   statement never waits, and a transaction that stays open after it holds up nobody (G14).
-- * The notification only makes a worker read the requests sooner (G15).
-- * Rows are locked in the order of ids, so that two who cancel the same jobs do not wait for each other.
with wanted as (
  select id::uuid from jsonb_array_elements_text(%(ids)s::jsonb) as given(id)
),
held as materialized (
  select ctid as at, id from {schema}.job
  where id = any (array(select id from wanted)) and state in ('r', 's', 'b', 'w')
  order by id
  for update skip locked
),
gone as (
  delete from {schema}.job where ctid = any (array(select at from held)) returning *
),
ended as (
  select g.*, 'c'::"char" as ended_as, {part kept_until 'c'} as kept_until, null::jsonb as result,
         jsonb_build_object('type', 'Cancelled', 'message', 'cancelled while it waited') as error
  from gone g left join {schema}.task t on t.name = g.task
),
{part end_jobs},
answered as (
  delete from {schema}.stop_request r using gone g where r.job_id = g.id
),
asked as (
  -- Also a job that changed between the snapshot and the lock: it was locked, but its new row is not seen here.
  select id from {schema}.job where id = any (array(select id from wanted)) and id not in (select id from gone)
),
requested as (
  insert into {schema}.stop_request (job_id, asked_at)
  select id, coalesce(%(now)s, now()) from asked a
  where not exists (select 1 from {schema}.stop_request r where r.job_id = a.id)
),
notified as (
  {part notify_ended}
  union all
  select pg_notify(%(channel)s::text, 'cancel ' || id::text) from asked where %(channel)s::text is not null
)
select id::text, 'cancelled' as came_to from gone
union all
select id::text, 'asked' from asked
union all
select null, 'notified' from notified
