-- Lists the jobs that were made because this one failed. Their headers name it (after_failure).
-- * No index has headers. But an id begins with the moment of its making, which is that of the failure.
with failed as (
  select distinct finished_at from {schema}.attempt where job_id = %(id)s::uuid and outcome = 'f'
),
span as (
  select (lpad(to_hex((extract(epoch from finished_at) * 1000)::bigint - 1), 12, '0') || repeat('0', 20))::uuid as first,
         (lpad(to_hex((extract(epoch from finished_at) * 1000)::bigint + 60000), 12, '0') || repeat('0', 20))::uuid as last
  from failed
)
select id, task, queue, state from (
  select j.id, j.task, j.queue, j.state, j.headers from span s join {schema}.job j on j.id between s.first and s.last
  union
  select a.id, a.task, a.queue, a.state, a.headers from span s join {schema}.archive a on a.id between s.first and s.last
) made
where headers ->> 'dead-letter-of' = %(id)s::text or headers ->> 'failure-of' = %(id)s::text
order by id
