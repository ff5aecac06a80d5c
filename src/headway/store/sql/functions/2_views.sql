-- The views that people read. They are stable: columns are only added, at the end.

create or replace function {schema}.label(state "char") returns text
language sql immutable parallel safe as $$
  select case state
    when 'r' then 'ready' when 's' then 'scheduled' when 'b' then 'blocked' when 'x' then 'running'
    when 'w' then 'waiting' when 'd' then 'succeeded' when 'f' then 'failed' when 'c' then 'cancelled'
    when 'e' then 'expired' end
$$;

-- Return the keys of a job, as people see them. A key of a task's limit stores the limit 0, which is not shown.
create or replace function {schema}.keys_of(key text, key_limit smallint, ordered boolean, unique_key text,
                                            until_claimed boolean) returns jsonb
language sql stable parallel safe as $$  -- stable, like the functions that it calls: otherwise it is not inlined
  select case when key is not null or unique_key is not null then jsonb_strip_nulls(jsonb_build_object(
      'concurrency', key, 'limit', nullif(key_limit, 0), 'ordered', case when ordered then true end,
      'unique', unique_key, 'until_claimed', case when until_claimed then true end)) end
$$;

create or replace view {schema}.jobs as
select id, task, queue, step, {schema}.label(state) as state, priority, attempt, max_attempts, run_at,
       created_at, case state when 'x' then claimed_at end as started_at,
       null::timestamptz as finished_at, worker_id as worker, input, null::jsonb as result,
       {part last_error job} as error, headers,
       {schema}.keys_of(key, key_limit, ordered, unique_key, until_claimed) as keys, progress, expires_at
from {schema}.job
union all
select id, task, queue, step, {schema}.label(state), priority, attempt, max_attempts, run_at,
       created_at, started_at, finished_at, worker_id, input, result, error, headers,
       {schema}.keys_of(key, key_limit, ordered, unique_key, until_claimed), progress, expires_at
from {schema}.archive;

create or replace view {schema}.queues as
select coalesce(j.queue, q.name) as queue,
       coalesce(j.ready, 0) as ready, coalesce(j.scheduled, 0) as scheduled,
       coalesce(j.blocked, 0) as blocked, coalesce(j.running, 0) as running,
       coalesce(j.waiting, 0) as waiting, j.oldest_ready_at,
       q.paused_at is not null as paused, q.paused_at, q.paused_by, q.pause_reason, q.paused_until,
       q.concurrency, q.rate, q.burst, coalesce(j.estimated, false) as estimated
from {schema}.live_jobs() j
full join (
  select name, concurrency, rate, burst, pause.*
  from {schema}.control c
  left join lateral (
    -- Only a pause that has not ended.
    select c.paused_at, c.paused_by, c.pause_reason, c.paused_until
    where c.paused_at is not null and coalesce(c.paused_until > now(), true)) pause on true
  where kind = 'queue') q on q.name = j.queue;

comment on view {schema}.jobs is 'Every job, live and archived alike. Stable: columns are only added.';
comment on view {schema}.queues is 'Every queue with jobs or settings, and the counts of its jobs. Stable: columns are only added.';
