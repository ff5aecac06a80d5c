-- ready -> ready, scheduled -> scheduled, blocked -> blocked, waiting -> waiting: in another queue.
-- * It walks the table as purge.sql does.
-- * Ready jobs go to the tail of their new lane, after every cursor, in the order that they had.
-- * Blocked jobs keep their place: the line of a key has jobs of all queues.
-- * Only ready jobs are notified of. Nothing changes for the others but the queue.
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
moved_ready as (
  select * from moved where state = 'r'
),
notified as (
  {part notify_woken moved_ready}
)
select (select count(*) from moved) as changed, (select count(*) from walked where meant) as meant,
       (select id from walked order by id desc limit 1) as last,
       coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as before, (select count(*) from notified) as notified
