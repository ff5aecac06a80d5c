-- Ready jobs that no live worker knows how to run, by handler (a task, or a flow's step). Who claims by SQL
-- without naming tasks knows them all.
select case step when '' then task else task || '/' || step end as handler, count(*)
from {schema}.job j
where state = 'r' and not exists (
  select 1 from {schema}.worker w
  where w.expires_at > coalesce(%(now)s, now()) and w.queues ?| array[j.queue, '*']
    and (w.tasks ? case j.step when '' then j.task else j.task || '/' || j.step end
         or w.version = 'sql' and w.tasks = '[]'))
group by 1 order by 1
