-- Records that somebody waits for the end of a live job. The statement that ends the job notifies them.
-- * Read the job's state again afterwards: it may have ended in between.
-- * A job that is awaited already keeps its row.
insert into {schema}.awaited (job_id, since)
select id, coalesce(%(now)s, now()) from {schema}.job where id = %(id)s::uuid
on conflict do nothing
returning job_id
