-- Workers lost or stopped over an hour ago hold nothing any more; nor does anyone wait for a day.
with gone as (
  delete from {schema}.worker w
  where expires_at <= coalesce(%(now)s, now()) - interval '1 hour'
    and not exists (select 1 from {schema}.job j where j.worker_id = w.id)
  returning id
),
unawaited as (
  delete from {schema}.awaited where since <= coalesce(%(now)s, now()) - interval '1 day' returning job_id
)
select (select count(*) from gone), (select count(*) from unawaited)
