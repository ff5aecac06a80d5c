-- Counts ready jobs that no live worker can run, by handler.
-- * A consumer in SQL that names no tasks can run them all.
select {part handler} as handler, count(*)
from {schema}.job j
where state = 'r' and not exists (
  select 1 from {schema}.worker w
  where w.expires_at > coalesce(%(now)s, now()) and w.queues ?| array[j.queue, '*']
    and (w.tasks ? {part handler j}
         or w.version = 'sql' and w.tasks = '[]'))
group by 1 order by 1
