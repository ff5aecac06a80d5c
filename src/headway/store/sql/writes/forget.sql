-- Workers lost or stopped over an hour ago hold nothing any more; nor does anyone wait for a day,
-- nor is a unique key taken whose period is over, and a bucket that is full says nothing, nor do starts under a rate that
-- is no more, nor a pause that is over.
with gone as (
  delete from {schema}.worker w
  where expires_at <= coalesce(%(now)s, now()) - interval '1 hour'
    and not exists (select 1 from {schema}.job j where j.worker_id = w.id)
  returning id
),
unawaited as (
  delete from {schema}.awaited where since <= coalesce(%(now)s, now()) - interval '1 day' returning job_id
),
freed as (
  delete from {schema}.unique_period where until <= coalesce(%(now)s, now()) returning key
),
filled as (
  delete from {schema}.bucket where spent_until <= coalesce(%(now)s, now()) returning key
),
unpaused as (
  delete from {schema}.control
  where paused_until <= coalesce(%(now)s, now()) and num_nonnulls(concurrency, rate, declared, changed_at) = 0
  returning name
),
unrated as (
  delete from {schema}.start s where not exists (
    select 1 from {schema}.control c where c.kind = 'keys' and c.name = s.handler and c.rated_in = s.rated_in)
  returning key
)
select (select count(*) from gone), (select count(*) from unawaited), (select count(*) from freed), (select count(*) from filled)
