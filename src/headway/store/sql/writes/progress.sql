-- Keeps how far running jobs say they are. Fenced like a verdict (I4).
-- A row that somebody has locked is skipped: progress is a hint, and the next note brings it (G14).
with note as (
  select * from jsonb_to_recordset(%(progress)s::jsonb) as p(i uuid, c bigint, p jsonb)
),
held as materialized (
  select j.ctid as at, n.p
  from note n join {schema}.job j on j.id = any (array(select i from note)) and j.id = n.i
    and case when j.claim = n.c and j.state = 'x' then true end
  for no key update of j skip locked
)
update {schema}.job j
set progress = n.p
from held n
where j.ctid = n.at
returning j.id::text
