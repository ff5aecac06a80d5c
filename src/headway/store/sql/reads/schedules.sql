-- Lists all schedules, or the one of a name, and the moment of the reading.
select name, task, spec, (job -> 'input')::text as input, owner, declared, catch_up, most, overlap, jitter, since, done_until, last_at,
       last_job, ends_at, paused_at, paused_by, pause_reason, created_at, changed_at, coalesce(%(now)s, now()) as now
from {schema}.schedule
where coalesce(name = %(name)s::text, true)
order by name
