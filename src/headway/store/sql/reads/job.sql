-- Returns one job, live or archived.
-- * The limit of a key is the one in force. A key of a task's limit stores 0: the control has the number.
select * from (
  select id, task, queue, step, state, priority, attempt, max_attempts, run_at, created_at,
         case state when 'x' then claimed_at end as started_at, null::timestamptz as finished_at,
         worker_id, input::text, null as result, ({part last_error job})::text as error, headers::text, progress::text, expires_at,
         state = 'x' and exists (select 1 from {schema}.stop_request r where r.job_id = job.id) as cancelling,
         {schema}.keys_of(key, case key_limit when 0 then (
             select least(c.concurrency, 32767)::smallint from {schema}.control c
             where c.kind = 'keys' and c.concurrency is not null and c.name = {part handler job})
           else key_limit end, ordered, unique_key, until_claimed)::text as keys, carried::text
  from {schema}.job where id = %(id)s::uuid
  union all
  select id, task, queue, step, state, priority, attempt, max_attempts, run_at, created_at, started_at,
         finished_at, worker_id, input::text, result::text, error::text, headers::text, progress::text, expires_at,
         false, {schema}.keys_of(key, key_limit, ordered, unique_key, until_claimed)::text, carried::text
  from {schema}.archive where id = %(id)s::uuid
) found
