-- Lists which of these claims are still current, and whether somebody asked the job to stop.
with claim as (
  select * from jsonb_to_recordset(%(claims)s::jsonb) as c(job_id uuid, claim bigint)
)
select j.id::text, exists (select 1 from {schema}.stop_request r where r.job_id = j.id) as asked
from claim c join {schema}.job j on j.id = any (array(select job_id from claim)) and j.id = c.job_id
where j.claim = c.claim and j.state = 'x'
