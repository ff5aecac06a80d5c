-- Lists jobs that this worker holds and does not know: claimed by a statement whose reply was lost, or forgotten by a failover.
-- * The columns are those of claim.sql.
-- * `known` are claims, not jobs. The lost statement may have moved a flow on and claimed its next step, while the worker
--   still has the verdict on the step before.
-- * `opens` may be true for a job whose start admits no other. It costs one look-up of the key.
select id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
       input::text, options::text, headers::text, carried::text, crashes,
       {part opens true} as opens, false as cut
from {schema}.job
where worker_id = %(worker)s
  and (id, claim) not in (select job_id, known.claim from jsonb_to_recordset(%(known)s::jsonb) as known(job_id uuid, claim bigint))
order by seq
limit %(limit)s
