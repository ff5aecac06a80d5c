-- Ready jobs that no live worker knows how to run, by handler (a task, or a flow's step).
select case step when '' then task else task || '/' || step end as handler, count(*)
from {schema}.job j
where state = 'r' and not exists (
  select 1 from {schema}.worker w
  where w.expires_at > coalesce(%(now)s, now()) and w.tasks ? case j.step when '' then j.task else j.task || '/' || j.step end and w.queues ?| array[j.queue, '*'])
group by 1 order by 1
