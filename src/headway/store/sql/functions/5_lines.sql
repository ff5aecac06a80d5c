-- Lines behind keys while something is shut: a queue or a task that is paused, or limited to none. Who cannot run
-- is passed by and gives way, so that others of its key, from other queues or tasks, are not held up. But not in
-- an ordered line: its order is what it is for.

create or replace function {schema}.shut(queue text, task text, step text, moment timestamptz) returns boolean
language sql stable as $$
  with job(queue, task, handler) as materialized (
    select shut.queue, shut.task, case shut.step when '' then shut.task else shut.task || '/' || shut.step end)
  select exists (
    select 1 from job j join {schema}.control c
      on (c.kind, c.name) in (('queue', j.queue), ('task', j.task), ('task', j.handler))
    where c.paused_at is not null and coalesce(c.paused_until > moment, true)
      -- A pause may name a whole flow; a limit is of a step.
      or c.concurrency = 0 and (c.kind = 'queue' or c.name = j.handler))
$$;

create or replace function {schema}.anything_shut(moment timestamptz) returns boolean
language sql stable as $$
  select exists (
    select 1 from {schema}.control c
    where c.kind in ('queue', 'task')
      and (c.concurrency = 0 or c.paused_at is not null and coalesce(c.paused_until > moment, true)))
$$;

-- The first in line who could run, in its order. A line is in parts by queue, task and step, and a part that is shut
-- is hopped over, however long it is. The condition of its index, word for word.
create or replace function {schema}.able_in_line(line text, most integer, moment timestamptz) returns setof tid
language sql stable as $$
  with recursive part(ordered, queue, task, step) as (
    (select ordered, queue, task, step from {schema}.job
     where case state when 'b' then true end and key = line
     order by ordered, queue, task, step limit 1)
    union all
    select n.ordered, n.queue, n.task, n.step from part p cross join lateral (
      select ordered, queue, task, step from {schema}.job
      where case state when 'b' then true end and key = line
        and (ordered, queue, task, step) > (p.ordered, p.queue, p.task, p.step)
      order by ordered, queue, task, step limit 1) n
  )
  select j.at from part p cross join lateral (
    select ctid as at, case when ordered then 0 else -priority end as rank, seq from {schema}.job
    where case state when 'b' then true end and key = line
      and ordered = p.ordered and queue = p.queue and task = p.task and step = p.step
    order by case when ordered then 0 else -priority end, seq
    limit most) j
  where p.ordered or not {schema}.shut(p.queue, p.task, p.step, moment)
  order by j.rank, j.seq
  limit most
$$;
