-- Returns a page of unfinished jobs with their payloads, in the order of their ids, for a check against new code.
-- * It walks the primary key, and reads at most `limit` rows however few are in the queues. The first row has the last id
--   walked, null after the end.
-- * Payloads of other queues are not read.
with walked as materialized (
  select id, coalesce(%(queues)s::jsonb ? queue, true) as meant from {schema}.job
  where id > %(after)s::uuid
  order by id limit %(limit)s
)
select (select id::text from walked order by id desc limit 1) as id, (select count(*) from walked)::text as queue,
       null as task, null as step, null as input, null as carried
union all
select j.id::text, j.queue, j.task, j.step, j.input::text, j.carried::text
from {schema}.job j
where j.id = any (array(select id from walked where meant))
