-- Whether anything of these tasks is ready, due or running in these queues now. What waits in a
-- paused queue cannot run; what runs there still does. One question for each of the three, because
-- each has an index of its own.
with served as (
  select jsonb_array_elements_text(%(queues)s::jsonb) as queue
),
known as (
  select jsonb_array_elements_text(%(tasks)s::jsonb) as task
),
open as (
  select queue from served except select name from {schema}.queue where paused_at is not null
)
select exists (
    select 1 from {schema}.job
    where state = 'r' and queue in (select queue from open) and task in (select task from known))
  or exists (
    select 1 from {schema}.job
    where state = 's' and run_at <= coalesce(%(now)s, now())
      and queue in (select queue from open) and task in (select task from known))
  or exists (
    select 1 from {schema}.job
    where worker_id is not null
      and queue in (select queue from served) and task in (select task from known))
