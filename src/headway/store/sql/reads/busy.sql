-- Counts the running jobs of a queue.
-- * By the index of held jobs, which has no others.
select count(*) from {schema}.job where worker_id is not null and queue = %(queue)s::text
