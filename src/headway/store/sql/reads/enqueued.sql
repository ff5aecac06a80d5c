-- Lists all jobs, live and finished, with the input that they were made with. For tests.
-- * A flow's job has the input of its current step. The first one is in its history.
select j.id::text, j.task, j.queue, j.priority, j.state, j.run_at, j.headers::text, coalesce(
  (select a.input from {schema}.attempt a
   where a.job_id = j.id and a.input is not null order by a.finished_at, a.claim limit 1), j.input)::text as input
from (
  select id, task, queue, priority, state, run_at, headers, input from {schema}.job
  union all
  select id, task, queue, priority, state, run_at, headers, input from {schema}.archive) j
where %(task)s::text is null or j.task = %(task)s
order by j.id
