-- How far running jobs say they are. Fenced like a verdict (I4).
update {schema}.job j
set progress = p.p
from jsonb_to_recordset(%(progress)s::jsonb) as p(i uuid, c integer, p jsonb)
where j.id = p.i and j.claim = p.c and j.state = 'x'
returning j.id::text
