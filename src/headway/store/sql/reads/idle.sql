-- Whether anything of these tasks is ready, running or due in these queues now.
select exists (
  select 1 from {schema}.job
  where queue in (select jsonb_array_elements_text(%(queues)s::jsonb))
    and task in (select jsonb_array_elements_text(%(tasks)s::jsonb))
    and (state in ('r', 'x') or state = 's' and run_at <= coalesce(%(now)s, now()))
    and queue not in (select name from {schema}.queue where paused_at is not null))
