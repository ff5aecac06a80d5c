-- What waits in a queue, by task and state: what a purge or a move would be about.
select task, state::text, count(*)
from {schema}.job
where queue = %(queue)s::text and coalesce(task = %(task)s::text, %(task)s::text is null)
  and state in ('r', 's', 'b', 'w')
group by task, state order by task, state
