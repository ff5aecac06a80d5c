-- Deletes rows that no longer matter. Locked rows are skipped until the next sweep (G14).
-- * workers that have been gone for an hour and hold no job, requests to drain them, and requests to stop jobs that
--   have ended
-- * waiters older than a day, unique keys whose period is over, ids of unkept jobs that ended an hour ago
-- * groups whose follow-up is in no table any more, of a thousand that were not looked at for a day
-- * buckets whose tokens are all earned again, starts recorded under an old rate, finished pauses
with gone as (
  delete from {schema}.worker where ctid = any (array(
    select ctid from {schema}.worker w
    where expires_at <= coalesce(%(now)s, now()) - interval '1 hour'
      and not exists (select 1 from {schema}.job j where j.worker_id = w.id)
    for update skip locked))
  returning id
),
drained as (
  delete from {schema}.drain_request where ctid = any (array(
    select ctid from {schema}.drain_request r
    where not exists (select 1 from {schema}.worker w where w.id = r.worker_id and w.expires_at > coalesce(%(now)s, now()))
    for update skip locked))
),
stopped as (
  delete from {schema}.stop_request where ctid = any (array(
    select ctid from {schema}.stop_request r
    where not exists (select 1 from {schema}.job j where j.id = r.job_id)
    for update skip locked))
),
unawaited as (
  delete from {schema}.awaited where ctid = any (array(
    select ctid from {schema}.awaited where since <= coalesce(%(now)s, now()) - interval '1 day'
    for update skip locked))
  returning job_id
),
freed as (
  delete from {schema}.unique_period where ctid = any (array(
    select ctid from {schema}.unique_period where until <= coalesce(%(now)s, now())
    for update skip locked))
  returning key
),
forgotten as (
  delete from {schema}.unkept where ctid = any (array(
    select ctid from {schema}.unkept where ended_at <= coalesce(%(now)s, now()) - interval '1 hour'
    for update skip locked))
),
filled as (
  delete from {schema}.bucket where ctid = any (array(
    select ctid from {schema}.bucket where spent_until <= coalesce(%(now)s, now())
    for update skip locked))
  returning key
),
unpaused as (
  delete from {schema}.control where ctid = any (array(
    select ctid from {schema}.control
    where paused_until <= coalesce(%(now)s, now()) and num_nonnulls(concurrency, rate, declared, changed_at) = 0
    for update skip locked))
),
looked as materialized (
  select ctid as at, job_id from {schema}.fan_in where look_at <= coalesce(%(now)s, now())
  order by look_at limit 1000
  for update skip locked
),
scattered as (
  delete from {schema}.fan_in where ctid = any (array(select at from looked l
    where not exists (select 1 from {schema}.job j where j.id = l.job_id)
      and not exists (select 1 from {schema}.archive a where a.id = l.job_id)))
),
looked_at as (
  update {schema}.fan_in set look_at = coalesce(%(now)s, now()) + interval '1 day' where ctid = any (array(select at from looked l
    where exists (select 1 from {schema}.job j where j.id = l.job_id)
       or exists (select 1 from {schema}.archive a where a.id = l.job_id)))
),
unrated as (
  delete from {schema}.start where ctid = any (array(
    select ctid from {schema}.start s where not exists (
      select 1 from {schema}.control c where c.kind = 'keys' and c.name = s.handler and c.rated_in = s.rated_in)
    for update skip locked))
)
select (select count(*) from gone), (select count(*) from unawaited), (select count(*) from freed), (select count(*) from filled)
