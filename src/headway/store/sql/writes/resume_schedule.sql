-- Resumes a paused schedule from now on. Occurrences during the pause are not fired.
-- * No row comes back if there is no schedule of this name.
with found as materialized (
  select name, paused_at is not null as paused from {schema}.schedule where name = %(name)s for update
),
resumed as (
  update {schema}.schedule s
  set paused_at = null, paused_by = null, pause_reason = null,
      done_until = greatest(s.done_until, coalesce(%(now)s, now())),
      next_at = case when s.next_at is not null then coalesce(%(now)s, now()) end,
      version = s.version + 1, changed_at = coalesce(%(now)s, now())
  from found f where s.name = f.name and f.paused
  returning s.name
),
notified as (
  select pg_notify(%(channel)s::text, 'schedule') from resumed where %(channel)s::text is not null
)
select f.paused as resumed, (select count(*) from resumed) as resumed_rows, (select count(*) from notified) as notified
from found f
