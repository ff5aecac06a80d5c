-- Which of these claims still hold, and whether somebody asked the job to stop.
with claim as (
  select * from jsonb_to_recordset(%(claims)s::jsonb) as c(i uuid, c bigint)
)
select j.id::text, exists (select 1 from {schema}.stop_request r where r.job_id = j.id) as asked
from claim c join {schema}.job j on j.id = any (array(select i from claim)) and j.id = c.i
where j.claim = c.c and j.state = 'x'
