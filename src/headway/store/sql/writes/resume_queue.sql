-- Opens a paused queue and wakes whoever serves it.
with opened as (
  update {schema}.queue set paused_at = null, paused_by = null, pause_reason = null
  where name = %(queue)s and paused_at is not null
  returning name
)
select name, case when %(channel)s::text is not null
                  then pg_notify(%(channel)s::text, 'ready 0 ' || name)::text end
from opened
