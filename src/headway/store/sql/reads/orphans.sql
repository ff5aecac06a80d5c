-- Jobs this worker holds without knowing: claimed by a statement whose reply was lost. The columns
-- are those of claim.sql.
select id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
       input::text, options::text, headers::text, carried::text,
       coalesce(key_limit = 0 or key_limit > 32, false) as opens
from {schema}.job
where worker_id = %(worker)s
  and id not in (select known::uuid from jsonb_array_elements_text(%(known)s::jsonb) as known)
