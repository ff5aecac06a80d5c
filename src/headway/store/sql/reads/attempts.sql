-- Every attempt of a job that failed, oldest first.
select step, attempt, claim, started_at, finished_at, worker_id, error::text
from {schema}.attempt where job_id = %(id)s::uuid
order by finished_at, claim
