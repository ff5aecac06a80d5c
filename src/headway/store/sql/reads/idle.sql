-- Returns whether any job of these handlers is ready, due, running or about to be admitted in these queues (null: in any) now.
-- * A job cannot run while it is paused, shut by a limit of 0, or without a token. A running job counts all the same.
-- * A blocked job counts if its key has room (key_room). Ready jobs that are shut do not take that room.
-- * A schedule that is due makes jobs, so it counts. So does a group that the leader has to look at.
-- * Each question is a query of its own, because each has an index of its own.
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
  select f.queue, f.task, f.step, f.key from {schema}.job f
  left join {schema}.control c on f.key_limit = 0 and c.kind = 'keys' and c.name = {part handler f}
  cross join lateral (
    select case when c.rate is not null then (
      select b.spent_until from {schema}.bucket b where b.key = f.key and b.rated_in = c.rated_in) end as spent_until) spent
  cross join lateral (
    select count(*)::integer as held, (count(*) filter (where state = 'r'))::integer as ready
    from {schema}.job where key = f.key and holds
      and (state <> 'r' or ordered or not {schema}.shut(queue, task, step, coalesce(%(now)s, now())))) h
  cross join lateral (
    {part key_room}) rule
  where f.state = 'b' and rule.room > 0
)
select exists (
    select 1 from due
    where (%(queues)s::jsonb is null or queue in (select jsonb_array_elements_text(%(queues)s::jsonb)))
      and queue not in (select name from closed where kind = 'queue')
      and (key is null or key not in (select name from closed where kind = 'key'))
      and {part handler} in (select handler from able))
  or exists (
    select 1 from {schema}.job
    where worker_id is not null
      and (%(queues)s::jsonb is null or queue in (select jsonb_array_elements_text(%(queues)s::jsonb)))
      and {part handler} in (select handler from known))
  or exists (
    select 1 from {schema}.fan_in f join {schema}.job w on w.id = f.job_id and w.state = 'w'
    where f.gathered_at is null
      and (select count(*) from {schema}.job j where j.id = any (f.witnesses)) <= f.all_but)
  or exists (
    select 1 from {schema}.schedule
    where next_at is not null and paused_at is null and next_at <= coalesce(%(now)s, now()))
