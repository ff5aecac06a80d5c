-- The error of the last attempt of an unfinished job, if that attempt failed and the job is to be tried again.
-- * It reads attempt_job by id, and nothing for a job that was never claimed.
case when {of.}claim <> 0 then (
  select case a.outcome when 'r' then a.error end from {schema}.attempt a
  where a.job_id = {of.}id order by a.finished_at desc, a.claim desc limit 1) end
