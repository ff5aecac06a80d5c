-- How many jobs of a queue run. By the index of held jobs, which knows no others.
select count(*) from {schema}.job where worker_id is not null and queue = %(queue)s::text
