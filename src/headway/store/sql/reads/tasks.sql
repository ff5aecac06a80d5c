-- What workers have declared: tasks, and steps of flows as `flow/step`.
select name from {schema}.task order by name
