-- Stores the progress that handlers report of running jobs. Fenced like a verdict (I4).
-- * Locked rows are skipped: progress is a hint, and the next report brings it (G14).
with note as (
  select * from jsonb_to_recordset(%(progress)s::jsonb) as p(job_id uuid, claim bigint, progress jsonb)
),
held as materialized (
  select j.ctid as at, n.progress
  from note n join {schema}.job j on j.id = any (array(select job_id from note)) and j.id = n.job_id
    and case when j.claim = n.claim and j.state = 'x' then true end
  for no key update of j skip locked
)
update {schema}.job j
set progress = n.progress
from held n
where j.ctid = n.at
returning j.id::text
