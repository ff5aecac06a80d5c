-- Lists all attempts that ended with an error, oldest first. For tests.
select job_id::text, claim, task, step, attempt, outcome, error::text from {schema}.attempt
where error is not null
order by finished_at, job_id, claim
