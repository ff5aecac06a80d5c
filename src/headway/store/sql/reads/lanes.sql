-- Lists the lanes of these queues that have ready jobs, and first the newest seq drawn so far.
-- * It is a loose index scan: one step of the index for each lane, however many jobs it has.
-- * A sequence that was never used has drawn none.
with recursive lane(queue, priority) as (
  select q.name, (select max(priority) from {schema}.job where state = 'r' and queue = q.name)
  from jsonb_array_elements_text(%(queues)s::jsonb) as q(name)
  union all
  select queue, (select max(j.priority) from {schema}.job j
                 where j.state = 'r' and j.queue = lane.queue and j.priority < lane.priority)
  from lane where priority is not null
)
select null as queue, null as priority, last_value - (not is_called)::integer as newest
from {schema}.job_seq
union all
select queue, priority, null from lane where priority is not null
