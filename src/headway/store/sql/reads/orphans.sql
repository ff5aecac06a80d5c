-- Jobs this worker holds without knowing: claimed by a statement whose reply was lost. The columns
-- are those of claim.sql.
-- * Known are claims, not jobs: the statement may have moved a flow on and claimed its next step, while the worker
--   still has the verdict on the step before.
select id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
       input::text, options::text, headers::text, carried::text, crashes,
       coalesce(key_limit = 0 or key_limit > 32, false) as opens, false as cut
from {schema}.job
where worker_id = %(worker)s
  and (id, claim) not in (select i, c from jsonb_to_recordset(%(known)s::jsonb) as known(i uuid, c bigint))
order by seq
limit %(limit)s
