-- Every attempt of a job that failed, and every step of a flow that was done, oldest first. Of the claim number, the
-- part that counts (claim.sql).
select step, attempt, (claim >> 32)::integer as claim, started_at, finished_at, worker_id, outcome, next_step, error::text, input::text
from {schema}.attempt where job_id = %(id)s::uuid
order by finished_at, attempt.claim
