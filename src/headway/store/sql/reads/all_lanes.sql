-- Lists the lanes that have ready jobs, as lanes.sql does, for a worker that serves every queue.
with recursive lane(queue, priority) as (
  (select queue, priority from {schema}.job where state = 'r' order by queue, priority limit 1)
  union all
  select next.queue, next.priority
  from lane cross join lateral (
    select queue, priority from {schema}.job
    where state = 'r' and (queue, priority) > (lane.queue, lane.priority)
    order by queue, priority limit 1) next
)
select null as queue, null as priority, last_value - (not is_called)::integer as newest
from {schema}.job_seq
union all
select queue, priority, null from lane
