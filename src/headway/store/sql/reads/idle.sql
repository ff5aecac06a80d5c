-- Whether anything of these handlers is ready, due, running or about to be admitted in these queues now.
-- What waits in a paused queue cannot run; what runs there still does. What is blocked can run while
-- nobody else holds its key: those who do are asked for themselves. One question for each, because each has
-- an index of its own.
with served as (
  select jsonb_array_elements_text(%(queues)s::jsonb) as queue
),
known as (
  select jsonb_array_elements_text(%(tasks)s::jsonb) as handler
),
open as (
  select queue from served except select name from {schema}.queue where paused_at is not null
)
select exists (
    select 1 from {schema}.job
    where state = 'r' and queue in (select queue from open)
      and case step when '' then task else task || '/' || step end in (select handler from known))
  or exists (
    select 1 from {schema}.job
    where state = 's' and run_at <= coalesce(%(now)s, now()) and queue in (select queue from open)
      and case step when '' then task else task || '/' || step end in (select handler from known))
  or exists (
    select 1 from {schema}.job
    where worker_id is not null and queue in (select queue from served)
      and case step when '' then task else task || '/' || step end in (select handler from known))
  or exists (
    select 1 from {schema}.job b
    where b.state = 'b' and b.queue in (select queue from open)
      and case b.step when '' then b.task else b.task || '/' || b.step end in (select handler from known)
      and b.key_limit > (select count(*) from {schema}.job h where h.key = b.key and h.holds))
