-- Lists a page of jobs, newest first: ids are ordered by time.
-- * It reads no payload.
select * from (
  (select id, task, queue, step, state, priority, attempt, max_attempts, run_at, created_at,
          case state when 'x' then claimed_at end as started_at, null::timestamptz as finished_at,
          worker_id, ({part last_error job})::text as error
   from {schema}.job
   where (%(before)s::uuid is null or id < %(before)s::uuid)
     and (%(states)s::text is null or state in (select jsonb_array_elements_text(%(states)s::jsonb)::"char"))
     and (%(task)s::text is null or task = %(task)s::text)
     and (%(step)s::text is null or step = %(step)s::text)
     and (%(queue)s::text is null or queue = %(queue)s::text)
   order by id desc limit %(limit)s)
  union all
  (select id, task, queue, step, state, priority, attempt, max_attempts, run_at, created_at, started_at,
          finished_at, worker_id, error::text
   from {schema}.archive
   where (%(before)s::uuid is null or id < %(before)s::uuid)
     and (%(states)s::text is null or state in (select jsonb_array_elements_text(%(states)s::jsonb)::"char"))
     and (%(task)s::text is null or task = %(task)s::text)
     and (%(step)s::text is null or step = %(step)s::text)
     and (%(queue)s::text is null or queue = %(queue)s::text)
   order by id desc limit %(limit)s)
) page
order by id desc
limit %(limit)s
