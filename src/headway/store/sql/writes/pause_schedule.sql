-- Pauses a schedule. The jobs that it has made stay.
-- * No row comes back if there is no schedule of this name.
update {schema}.schedule
set paused_at = coalesce(paused_at, coalesce(%(now)s, now())), paused_by = %(actor)s, pause_reason = %(reason)s,
    version = version + 1, changed_at = coalesce(%(now)s, now())
where name = %(name)s
returning paused_at
