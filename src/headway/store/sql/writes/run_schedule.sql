-- Makes a job of a schedule now, as if it were due; when it is due next stays as it is. The answer is the job, or
-- the one that has its unique key; no row if there is no schedule of this name.
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
