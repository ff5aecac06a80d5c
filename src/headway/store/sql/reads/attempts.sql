-- Lists every failed attempt of a job and every completed step of a flow, oldest first.
-- * `claim` is the half of the claim number that counts (claim.sql).
select step, attempt, (claim >> 32)::integer as claim, started_at, finished_at, worker_id, outcome, next_step, error::text, input::text
from {schema}.attempt where job_id = %(id)s::uuid
order by finished_at, attempt.claim
