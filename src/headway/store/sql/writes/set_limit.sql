-- Sets the limits of a queue, of a task or of each of its keys, from the next claim on; a limit that is null
-- is none. What runs already counts from now on, too. The order is that of the claim: control, then jobs.
with kept as (
  insert into {schema}.control as c (kind, name, concurrency, rate, burst, changed_at, changed_by)
  values (%(kind)s, %(name)s, %(concurrency)s, %(rate)s, %(burst)s, coalesce(%(now)s, now()), %(by)s)
  on conflict (kind, name) do update
  set concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst,
      -- A moment that a slower rate has spent far ahead says nothing of a faster one.
      spent_until = case when c.rate is not distinct from excluded.rate then c.spent_until end,
      rated_in = case when c.rate is not distinct from excluded.rate then c.rated_in else excluded.rated_in end,
      changed_at = excluded.changed_at, changed_by = excluded.changed_by
  returning kind, name, concurrency
),
counted as (
  update {schema}.job j set limited = true
  from kept k
  where k.concurrency is not null and j.worker_id is not null and not j.limited
    and (k.kind = 'queue' and j.queue = k.name
         or k.kind = 'task' and j.task = split_part(k.name, '/', 1) and j.step = split_part(k.name, '/', 2))
  returning 1
)
select (select count(*) from counted),
       case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end
from kept
