-- ready | scheduled | blocked | waiting -> expired, for jobs that waited longer than their time to live.
-- * The archive shows the job as expired (I7).
-- * A running job does not expire.
-- * Locked rows are skipped: somebody is claiming or changing them.
with old as materialized (
  select ctid from {schema}.job
  where expires_at is not null and expires_at <= coalesce(%(now)s, now()) and state in ('r', 's', 'b', 'w')
  order by expires_at
  limit %(limit)s
  for update skip locked
),
gone as (
  delete from {schema}.job where ctid = any (array(select ctid from old)) returning *
),
ended as (
  select g.*, 'e'::"char" as ended_as, {part kept_until 'e'} as kept_until, null::jsonb as result,
         jsonb_build_object('type', 'Expired', 'message', 'its time to live passed while it waited') as error
  from gone g left join {schema}.task t on t.name = g.task
),
{part end_jobs},
notified as (
  {part notify_ended}
)
select (select count(*) from gone), (select count(*) from notified)
