-- Says that someone waits for the end of a live job. Read its state again afterwards: it may have
-- ended in between.
insert into {schema}.awaited (job_id, since)
select id, coalesce(%(now)s, now()) from {schema}.job where id = %(id)s::uuid
on conflict (job_id) do nothing
returning job_id
