-- What workers have declared: tasks, and steps of flows as `flow/step`; each with its queue.
select name, queue from {schema}.task order by name
