-- Pauses a queue, a task or a key: from the next claim on, none of its jobs starts. Running jobs continue.
-- * The pause lasts until somebody resumes it, or until the given moment.
-- * Workers are notified. They sleep until that moment.
with paused as (
  insert into {schema}.control as c (kind, name, paused_at, paused_until, paused_by, pause_reason)
  values (%(kind)s, %(name)s, coalesce(%(now)s, now()),
          coalesce(%(until)s::timestamptz, coalesce(%(now)s, now()) + make_interval(secs => %(lasting)s::double precision)),
          %(actor)s, %(reason)s)
  on conflict (kind, name) do update
  set paused_at = case when c.paused_until <= coalesce(%(now)s, now()) then excluded.paused_at
                       else coalesce(c.paused_at, excluded.paused_at) end,
      paused_until = excluded.paused_until, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
  returning c.paused_at
)
select paused_at, case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end
from paused
