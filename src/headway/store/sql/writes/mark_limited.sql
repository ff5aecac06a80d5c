-- What runs and does not know of a limit counts under it from now on: after a limit was declared or taken back;
-- by each worker that hears of one, for what it claimed at the very moment when it was set; and now and then, for
-- those who do not hear.
with marked as (
  update {schema}.job j set limited = true
  from {schema}.control c
  where c.concurrency is not null and j.worker_id is not null and not j.limited
    and (c.kind = 'queue' and j.queue = c.name
         or c.kind = 'task' and j.task = split_part(c.name, '/', 1) and j.step = split_part(c.name, '/', 2))
  returning 1
)
select count(*) from marked
