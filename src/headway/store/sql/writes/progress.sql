-- How far running jobs say they are. Fenced like a verdict (I4).
with note as (
  select * from jsonb_to_recordset(%(progress)s::jsonb) as p(i uuid, c integer, p jsonb)
)
update {schema}.job j
set progress = n.p
from note n
where j.id = any (array(select i from note)) and j.id = n.i and j.claim = n.c and j.state = 'x'
returning j.id::text
