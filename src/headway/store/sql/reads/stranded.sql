-- Ready jobs that no live worker knows how to run, by task.
select task, count(*)
from {schema}.job j
where state = 'r' and not exists (
  select 1 from {schema}.worker w
  where w.expires_at > coalesce(%(now)s, now()) and w.tasks ? j.task and w.queues ? j.queue)
group by task order by task
