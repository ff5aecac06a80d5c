-- Returns the call of each schedule, and whether code declares it, for a check against new code.
select name, coalesce(job ->> 'queue', ''), task, coalesce(job ->> 'step', ''), coalesce(job -> 'input', '{}')::text,
       (job -> 'carried')::text, declared, owner
from {schema}.schedule
where coalesce(%(queues)s::jsonb ? coalesce(job ->> 'queue', ''), true)
order by name limit %(limit)s
