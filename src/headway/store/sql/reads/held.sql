-- Which of these claims still hold, and whether the job was asked to stop.
select j.id::text, j.cancelling
from jsonb_to_recordset(%(claims)s::jsonb) as c(i uuid, c integer)
join {schema}.job j on j.id = c.i
where j.claim = c.c and j.state = 'x'
