-- Whether anything of these handlers is ready, due, running or about to be admitted in these queues (null:
-- in any) now. What is paused, shut by a limit of 0 or waits for a token cannot run; what runs there still does. What is
-- blocked can run while nobody else holds its key who can: those who do are asked for themselves. A schedule that is
-- due makes jobs. One question for each, because each has an index of its own.
with closed as materialized (
  select kind, name from {schema}.control c
  where paused_at is not null and coalesce(paused_until > coalesce(%(now)s, now()), true)
     or kind in ('queue', 'task') and concurrency = 0
     or kind in ('queue', 'task') and {schema}.tokens(rate, burst, (
          select b.spent_until from {schema}.bucket b
          where b.key = {schema}.bucket_of(kind, name) and b.rated_in = c.rated_in), coalesce(%(now)s, now())) < 1
),
known as materialized (
  select handler from jsonb_array_elements_text(%(tasks)s::jsonb) as t(handler)
),
able as materialized (
  select handler from known
  where handler not in (select name from closed where kind = 'task')
    and split_part(handler, '/', 1) not in (select name from closed where kind = 'task')
),
due as (
  select queue, task, step, key from {schema}.job where state = 'r'
  union all
  select queue, task, step, key from {schema}.job where state = 's' and run_at <= coalesce(%(now)s, now())
  union all
  select b.queue, b.task, b.step, b.key from {schema}.job b
  left join {schema}.control c on b.key_limit = 0 and c.kind = 'keys'
    and c.name = case b.step when '' then b.task else b.task || '/' || b.step end
  cross join lateral (
    select count(*) as held, count(*) filter (where state = 'r') as ready
    from {schema}.job where key = b.key and holds
      and (state <> 'r' or ordered or not {schema}.shut(queue, task, step, coalesce(%(now)s, now())))) h
  where b.state = 'b'
    and h.ready < 32 and h.held < case b.key_limit when 0 then coalesce(c.concurrency, 32000) else b.key_limit end
    and (c.rate is null or h.ready < {schema}.tokens(c.rate, c.burst,
           (select k.spent_until from {schema}.bucket k where k.key = b.key and k.rated_in = c.rated_in), coalesce(%(now)s, now())))
)
select exists (
    select 1 from due
    where (%(queues)s::jsonb is null or queue in (select jsonb_array_elements_text(%(queues)s::jsonb)))
      and queue not in (select name from closed where kind = 'queue')
      and (key is null or key not in (select name from closed where kind = 'key'))
      and case step when '' then task else task || '/' || step end in (select handler from able))
  or exists (
    select 1 from {schema}.job
    where worker_id is not null
      and (%(queues)s::jsonb is null or queue in (select jsonb_array_elements_text(%(queues)s::jsonb)))
      and case step when '' then task else task || '/' || step end in (select handler from known))
  or exists (
    select 1 from {schema}.schedule
    where next_at is not null and paused_at is null and next_at <= coalesce(%(now)s, now()))
