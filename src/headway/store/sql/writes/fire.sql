-- Moves one schedule past the occurrences that are due and makes their jobs: both, or neither.
-- * Fenced by done_until and version: only one firer moves a schedule, so each occurrence is made once, even if firers die.
-- * A row that is locked is skipped until the next scan. Another firer has it, or an open transaction changes it, and
--   other schedules are due as well.
-- * For the same reason it waits at most two seconds for a unique key that an open transaction has.
-- * With overlap 'skip' it makes no job while the last one lives, even if that was made under another rule.
with held as materialized (
  select s.name, s.job, s.overlap = 'skip' and exists (select 1 from {schema}.job j where j.id = s.last_job) as busy
  from {schema}.schedule s
  where s.name = %(name)s and s.done_until = %(was)s::timestamptz and s.version = %(version)s
    and s.paused_at is null
  for update skip locked
),
due as materialized (
  select o.id, o.occurrence, o.at
  from held h cross join jsonb_to_recordset(%(occurrences)s::jsonb) as o(id uuid, occurrence text, at timestamptz)
  where not h.busy
),
made as materialized (
  select jsonb_agg({schema}.occurrence_job(h.job, h.name, o.id, o.occurrence, o.at)
                   order by o.occurrence::timestamptz) as jobs,
         set_config('lock_timeout', '2s', true) as lock_timeout
  from held h cross join due o
),
taken as materialized (
  select t.asked, t.id
  from made cross join lateral {schema}.enqueue_jobs(made.jobs, %(channel)s::text, %(now)s::timestamptz) t
),
fired as materialized (
  select o.id, o.occurrence::timestamptz as occurrence from due o where o.id not in (select asked from taken)
  order by 2 desc
),
moved as (
  update {schema}.schedule s
  set done_until = %(until)s::timestamptz, next_at = %(next_at)s::timestamptz,
      last_at = coalesce((select occurrence from fired limit 1), s.last_at),
      last_job = coalesce((select id from fired limit 1), s.last_job)
  from held h where s.name = h.name
  returning s.name
)
select (select count(*) from moved) as moved, (select count(*) from fired) as fired
