-- Puts schedules at run time, or stores those that code declares.
-- * The scheduler reads a changed schedule at once: it alone computes the next occurrence.
-- * A schedule with the same spec continues where it is, so a deploy neither loses nor repeats an occurrence. A new spec
--   begins now. A pause stays.
-- * Code does not replace a schedule that was put at run time or that another app declared: `taken` is true then.
-- * With `missing`, only schedules that do not exist are written. One that can never be due again is not put.
-- * Rows are written in the order of names, so that no two writers wait for each other.
-- * Now is the start of this statement. Occurrences since the caller's transaction began belong to the old schedule.
-- * Only rows that change are locked. If a person's open transaction has one of them, a worker waits half a second, goes
--   on, and tries again later (G14).
with given as materialized (
  select d.*, coalesce(%(now)s, statement_timestamp()) as moment
  from jsonb_to_recordset(%(schedules)s::jsonb) as d(name text, task text, spec text, job jsonb, call jsonb,
    catch_up text, most integer, overlap text, jitter double precision, ends_at timestamptz, last timestamptz)
  where %(declared)s::boolean or coalesce(d.last > coalesce(%(now)s, statement_timestamp()), true)
),
changed as materialized (
  select g.name, g.task, g.spec, g.document as job, g.catch_up, g.most, g.overlap, g.jitter, g.ends_at, g.moment,
         case when %(declared)s::boolean then set_config('lock_timeout', '500ms', true) end as lock_timeout
  from (select *, coalesce(job, {schema}.prepare_job(call)) - 'id' - 'at' as document from given) g
  left join {schema}.schedule s on s.name = g.name
  where s.name is null
     or not %(missing)s::boolean
        and (s.owner, s.declared, s.task, s.spec, s.job, s.catch_up, s.most, s.overlap, s.jitter, s.ends_at)
            is distinct from (%(owner)s::text, %(declared)s::boolean, g.task, g.spec, g.document, g.catch_up, g.most,
              g.overlap, g.jitter, g.ends_at)
),
written as (
  insert into {schema}.schedule as s (name, owner, declared, task, spec, job, catch_up, most, overlap, jitter,
    ends_at, since, done_until, next_at, created_at, changed_at)
  select name, %(owner)s::text, %(declared)s::boolean, task, spec, job, catch_up, most, overlap, jitter,
         ends_at, moment, moment, moment, moment, moment
  from changed order by name
  on conflict (name) do update
  set owner = excluded.owner, declared = excluded.declared, task = excluded.task, spec = excluded.spec,
      job = excluded.job, catch_up = excluded.catch_up, most = excluded.most, overlap = excluded.overlap,
      jitter = excluded.jitter, ends_at = excluded.ends_at,
      since = case when s.spec = excluded.spec then s.since else excluded.since end,
      done_until = case when s.spec = excluded.spec and s.next_at is not null then s.done_until
                        else greatest(s.done_until, excluded.done_until) end,
      next_at = excluded.next_at, version = s.version + 1, changed_at = excluded.changed_at
  where not %(missing)s::boolean
    and (not excluded.declared or (s.declared and s.owner = excluded.owner))
    and (s.owner, s.declared, s.task, s.spec, s.job, s.catch_up, s.most, s.overlap, s.jitter, s.ends_at)
        is distinct from
        (excluded.owner, excluded.declared, excluded.task, excluded.spec, excluded.job, excluded.catch_up,
         excluded.most, excluded.overlap, excluded.jitter, excluded.ends_at)
  returning s.name
),
notified as (
  select pg_notify(%(channel)s::text, 'schedule') from written where %(channel)s::text is not null limit 1
)
select g.name,
       %(declared)s::boolean and s.name is not null and not (s.declared and s.owner = %(owner)s::text) as taken,
       (select count(*) from notified) as notified
from given g left join {schema}.schedule s on s.name = g.name
