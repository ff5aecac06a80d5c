-- Returns the groups of a page whose witnesses have ended, so that somebody has to look at all members (gather.sql).
-- * It reads up to `limit` open groups after a cursor. The first row has the last of them, null on the last page.
with page as materialized (
  select job_id, witnesses, all_but from {schema}.fan_in
  where gathered_at is null and job_id > %(after)s::uuid
  order by job_id limit %(limit)s
)
select case when count(*) = %(limit)s::bigint then (array_agg(job_id order by job_id desc))[1]::text end from page
union all
select job_id::text from page p
where (select count(*) from {schema}.job j where j.id = any (p.witnesses)) <= p.all_but
