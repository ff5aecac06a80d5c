-- Makes a job of a schedule now, as if it were due. Its next occurrence stays as it is.
-- * Returns the job's id, or that of the job that has its unique key. No row comes back if there is no such schedule.
with chosen as materialized (
  select jsonb_build_array(jsonb_set(
    {schema}.occurrence_job(s.job, s.name, %(id)s::uuid,
      to_char(coalesce(%(now)s, now()) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), null)
    || jsonb_build_object('unique_key', s.job -> 'unique_key'), '{headers,manual}', '"true"')) as jobs
  from {schema}.schedule s where s.name = %(name)s
),
taken as materialized (
  select t.id
  from chosen c cross join lateral {schema}.enqueue_jobs(c.jobs, %(channel)s::text, %(now)s::timestamptz) t
)
select coalesce((select t.id from taken t), %(id)s::uuid) as id from chosen
