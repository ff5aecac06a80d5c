-- Lines of keys while a queue or a task is shut: paused, or limited to 0.
-- * Jobs that cannot run are skipped, and ready ones go back (unadmit.sql). So they do not hold up others of their key,
--   from other queues or tasks.
-- * An ordered line keeps its order: nothing is skipped there.

create or replace function {schema}.shut(queue text, task text, step text, moment timestamptz) returns boolean
language sql stable as $$
  with job(queue, task, handler) as materialized (
    select shut.queue, shut.task, {part handler shut})
  select exists (
    select 1 from job j join {schema}.control c
      on (c.kind, c.name) in (('queue', j.queue), ('task', j.task), ('task', j.handler))
    where c.paused_at is not null and coalesce(c.paused_until > moment, true)
      -- A pause may name a whole flow. A limit is of one step.
      or c.concurrency = 0 and (c.kind = 'queue' or c.name = j.handler))
$$;

create or replace function {schema}.anything_shut(moment timestamptz) returns boolean
language sql stable as $$
  select exists (
    select 1 from {schema}.control c
    where c.kind in ('queue', 'task')
      and (c.concurrency = 0 or c.paused_at is not null and coalesce(c.paused_until > moment, true)))
$$;

-- Return the first jobs in line that could run, in their order.
-- * A line has sections by queue, task and step. A shut section costs one step of the index, however long it is.
-- * The condition is that of the index job_part, word for word.
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
    select ctid as at, {part line_rank} as rank, seq from {schema}.job
    where case state when 'b' then true end and key = line
      and ordered = p.ordered and queue = p.queue and task = p.task and step = p.step
    order by {part line_rank}, seq
    limit most) j
  where p.ordered or not {schema}.shut(p.queue, p.task, p.step, moment)
  order by j.rank, j.seq
  limit most
$$;
