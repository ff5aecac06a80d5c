-- Counts the waiting jobs of a queue by task and state: those that a purge or a move would change.
select task, state::text, count(*)
from {schema}.job
where queue = %(queue)s::text and coalesce(task = %(task)s::text, %(task)s::text is null)
  and state in ('r', 's', 'b', 'w')
group by task, state order by task, state
