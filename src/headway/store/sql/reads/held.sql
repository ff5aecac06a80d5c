-- Which of these claims still hold, and whether the job was asked to stop.
with claim as (
  select * from jsonb_to_recordset(%(claims)s::jsonb) as c(i uuid, c integer)
)
select j.id::text, j.cancelling
from claim c join {schema}.job j on j.id = any (array(select i from claim)) and j.id = c.i
where j.claim = c.c and j.state = 'x'
