-- Lists the tasks that workers have declared, and steps of flows as `flow/step`, each with its queue.
select name, queue from {schema}.task order by name
