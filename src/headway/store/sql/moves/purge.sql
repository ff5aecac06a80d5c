-- ready | scheduled | blocked | waiting -> cancelled, for jobs that wait in a queue, or for those of one task there.
-- * It walks the table by its primary key, a thousand rows at a time, however few of them are meant. The statement stays
--   short, and the caller repeats it after the `last` row. The thousand is a literal: the planner must know that it is
--   little.
-- * Only jobs made before `before` are meant, so that producers do not keep it going.
-- * Locked rows are skipped: they are changing hands. The caller reads them again (store/scripts.py).
with walked as materialized (
  select id, ctid as at, queue = %(queue)s::text and coalesce(task = %(task)s::text, %(task)s::text is null)
         and state in ('r', 's', 'b', 'w')
         and created_at <= coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as meant
  from {schema}.job where id > %(after)s::uuid
  order by id limit 1000
),
held as materialized (
  select ctid as at from {schema}.job where ctid = any (array(select at from walked where meant))
  for update skip locked
),
gone as (
  delete from {schema}.job where ctid = any (array(select at from held)) returning *
),
ended as (
  select g.*, 'c'::"char" as ended_as, {part kept_until 'c'} as kept_until, null::jsonb as result,
         jsonb_build_object('type', 'Cancelled', 'message', 'its queue was purged while it waited') as error
  from gone g left join {schema}.task t on t.name = g.task
),
{part end_jobs},
notified as (
  {part notify_ended}
)
select (select count(*) from gone) as changed, (select count(*) from walked where meant) as meant,
       (select id from walked order by id desc limit 1) as last,
       coalesce(%(before)s::timestamptz, coalesce(%(now)s, now())) as before, (select count(*) from notified) as notified
