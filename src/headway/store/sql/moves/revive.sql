-- failed | cancelled | expired -> ready, and scheduled -> ready: tried again on request.
-- The job comes back whole, where it stood, with fresh attempts; its claim number goes on (I3) and
-- its past attempts stay in `attempt`. Its time to live ended with its first life.
with back as (
  delete from {schema}.archive where id = %(id)s::uuid and state in ('f', 'c', 'e') returning *
),
made as (
  insert into {schema}.job (id, run_at, created_at, claim, max_attempts, priority, state, queue, task,
                            step, input, options, headers)
  select id, coalesce(%(now)s, now()), created_at, claim, max_attempts, priority, 'r', queue, task,
         step, input, options, headers
  from back
  returning queue, priority
),
hurried as (
  update {schema}.job
  set state = 'r', run_at = coalesce(%(now)s, now()), seq = nextval('{schema}.job_seq')
  where id = %(id)s::uuid and state = 's'
  returning queue, priority
)
select case when %(channel)s::text is null then ''
            else pg_notify(%(channel)s::text, 'ready ' || priority || ' ' || queue)::text end
from (select * from made union all select * from hurried) woken
