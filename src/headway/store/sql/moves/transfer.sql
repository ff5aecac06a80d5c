-- ready -> ready, scheduled -> scheduled, blocked -> blocked, waiting -> waiting: in another queue.
-- Walks the table as purge.sql does. What is ready goes to the tail of its new lane, where the cursors of
-- those who serve it will come by, in the order that it had; lines behind keys know no queues, so what is
-- blocked keeps its place.
with walked as materialized (
  select id, ctid as at, queue = %(queue)s::text and coalesce(task = %(task)s::text, %(task)s::text is null)
         and state in ('r', 's', 'b', 'w')
         and created_at <= coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as meant
  from {schema}.job where id > %(after)s::uuid
  order by id limit 1000
),
held as materialized (
  select ctid as at, id, state, seq from {schema}.job where ctid = any (array(select at from walked where meant))
  for no key update skip locked
),
placed as materialized (
  select jsonb_object_agg(id, nextval('{schema}.job_seq')) as places
  from (select id from held where state = 'r' order by seq) in_order
),
moved as (
  update {schema}.job
  set queue = %(target)s::text,
      seq = case state when 'r' then ((select places from placed) ->> id::text)::bigint else seq end
  where ctid = any (array(select at from held))
  returning queue, priority, state
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from moved where state = 'r' and %(channel)s::text is not null
  group by queue
)
select (select count(*) from moved) as changed, (select count(*) from walked where meant) as meant,
       (select id from walked order by id desc limit 1) as last,
       coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as before, (select count(*) from rung) as rung
