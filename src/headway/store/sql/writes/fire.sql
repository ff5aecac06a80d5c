-- Moves one schedule past what was due and makes the jobs of it: both, or neither. Only while it is as the
-- firer read it (done_until, version): of any number of firers one moves it, and whoever waited for its row
-- finds it moved. So each occurrence is made once, whoever dies when. Where someone's open transaction has the
-- task's own unique key, the making of the job is not waited for long: other schedules are due, too.
with held as materialized (
  select s.name, s.job from {schema}.schedule s
  where s.name = %(name)s and s.done_until = %(was)s::timestamptz and s.version = %(version)s
    and s.paused_at is null
  for update
),
made as materialized (
  select jsonb_agg({schema}.occurrence_job(h.job, h.name, o.id, o.occurrence, o.at)
                   order by o.occurrence::timestamptz) as jobs,
         set_config('lock_timeout', '2s', true) as patience
  from held h
  cross join jsonb_to_recordset(%(occurrences)s::jsonb) as o(id uuid, occurrence text, at timestamptz)
),
taken as materialized (
  select t.asked, t.id
  from made cross join lateral {schema}.enqueue_jobs(made.jobs, %(channel)s::text, %(now)s::timestamptz) t
),
moved as (
  update {schema}.schedule s
  set done_until = %(until)s::timestamptz, next_at = %(next_at)s::timestamptz,
      last_at = coalesce(%(last_at)s::timestamptz, s.last_at),
      last_job = coalesce((select t.id from taken t where t.asked = %(last_job)s::uuid), %(last_job)s::uuid, s.last_job)
  from held h where s.name = h.name
  returning s.name
)
select (select count(*) from moved) as moved, (select count(*) from taken) as taken
