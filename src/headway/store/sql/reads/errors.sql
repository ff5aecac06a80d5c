-- Lists the newest failures of jobs, optionally of one task and since a moment.
-- * The columns are those of failures.sql after its snapshot.
select f.job_id, f.task, f.step, f.queue, f.attempt, f.finished_at, f.error::text,
       coalesce(r.input, j.input)::text, coalesce(r.headers, j.headers)::text
from (
  select * from {schema}.attempt
  where outcome = 'f'
    and (%(task)s::text is null or task = %(task)s::text)
    and (%(since)s::timestamptz is null or finished_at >= %(since)s::timestamptz)
  order by finished_at desc, job_id desc
  limit %(limit)s
) f
left join {schema}.archive r on r.id = f.job_id
left join {schema}.job j on j.id = f.job_id
order by f.finished_at desc, f.job_id desc
