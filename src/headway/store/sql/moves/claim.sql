-- ready -> running.
-- * One statement serves all queues of a worker, each with its share of the room, and all lanes of each queue in the order
--   given. Priority is strict within a queue, because the joins are nested loops in that order and the limits stop them
--   early.
-- * Each lane is read after the worker's cursor (l.cursor), so dead rows at its start are not walked.
-- * `for no key update skip locked`: claims never wait for each other.
-- * Rows are updated by ctid, because a second index descent per job costs more than the rest of the claim. A row that
--   changed between the snapshot and the lock is not claimed this time.
-- * A worker whose lease has run out claims nothing: its jobs would look lost at once.
-- * `l.handlers` are the handlers that the worker knows (`task` or `flow/step`); others are left for other workers. Null,
--   for a consumer in SQL, stands for all.
-- * The limits of queues and tasks are exact, because this runs after lock_limits.sql. A setting of the transaction names
--   the limits that are locked; the others are shut for now. A task with a limit is claimed only on a line of its own
--   (l.alone), and on one line of a statement.
-- * Starts under a rate of each key are only recorded. admit.sql reserved their tokens and adds them to the bucket.
-- * Now is the start of this statement. Its transaction may have waited for the lock of a key, and a start must not be
--   dated before its admission.
with control as materialized (
  select kind, name, concurrency, rate, burst, rated_in,
         concurrency is not null or rate is not null as bound,
         paused_at is not null and coalesce(paused_until > coalesce(%(now)s, statement_timestamp()), true) as paused,
         coalesce(kind || ' ' || name = any (string_to_array(current_setting('headway.locked', true), chr(31))), false)
           as locked
  from {schema}.control
  where concurrency is not null or rate is not null
     or paused_at is not null and coalesce(paused_until > coalesce(%(now)s, statement_timestamp()), true)
),
controls as materialized (
  select count(*) filter (where kind <> 'keys') > 0 as anything,
    coalesce(bool_or(rate is not null) filter (where kind <> 'keys'), false) as rates,
    array_agg(name order by name) filter (where kind = 'keys' and rate is not null) as rated_tasks,
    array_agg(rated_in order by name) filter (where kind = 'keys' and rate is not null) as rated_in,
    coalesce(array_agg(name) filter (where kind = 'keys' and rate is null and concurrency <= {part turn_size}), '{}') as narrow_tasks,
    coalesce(array_agg(name) filter (where kind = 'queue' and (paused or bound and not locked)), '{}') as shut_queues,
    coalesce(array_agg(name) filter (where kind = 'task' and (paused or bound and not locked)), '{}') as shut_tasks,
    -- A pause may name a whole flow. A limit is of one step.
    coalesce(array_agg(name) filter (where kind = 'task' and paused), '{}') as paused_tasks,
    coalesce(array_agg(name) filter (where kind = 'key' and paused), '{}') as shut_keys,
    coalesce(array_agg(name) filter (where kind = 'task' and bound), '{}') as bound_tasks,
    coalesce(array_agg(name) filter (where kind = 'queue' and concurrency is not null), '{}') as counted_queues,
    coalesce(array_agg(name) filter (where kind = 'task' and concurrency is not null), '{}') as counted_tasks
  from control
),
room as materialized (
  select kind, name, greatest(0, least(
    concurrency - {part running_under c},
    {schema}.tokens(rate, burst, s.until, coalesce(%(now)s, statement_timestamp())))) as room, rate, rated_in, s.until
  from control c
  left join lateral (
    select b.spent_until as until from {schema}.bucket b
    where b.key = {schema}.bucket_of(c.kind, c.name) and b.rated_in = c.rated_in) s on rate is not null
  where kind in ('queue', 'task') and bound and locked and not paused
),
pick as materialized (
  select j.ctid, j.weight
  from controls, jsonb_to_recordset(%(shares)s::jsonb) as s(queue text, most integer, lines jsonb)
  cross join lateral (
    select j.ctid, j.weight
    from jsonb_to_recordset(s.lines)
      as l(priority smallint, cursor bigint, most integer, handlers text[], alone boolean)
    cross join lateral (
      select case when l.handlers is null or not controls.anything then l.handlers else array(
        select handler from unnest(l.handlers) handler
        where handler <> all (controls.shut_tasks) and split_part(handler, '/', 1) <> all (controls.paused_tasks)
          and (l.alone or handler <> all (controls.bound_tasks))) end as handlers,
        case when l.alone then (select r.room from room r where r.kind = 'task' and r.name = l.handlers[1]) end as room
    ) allowed
    cross join lateral (
      select ctid, pg_column_size(input) as weight from {schema}.job
      where state = 'r' and queue = s.queue and priority = l.priority and seq > l.cursor
        and (allowed.handlers is null or {part handler} = any (allowed.handlers))
        and (allowed.handlers is not null or not controls.anything
             or {part handler} <> all (controls.bound_tasks || controls.shut_tasks)
                and task <> all (controls.paused_tasks))
        and (not controls.anything or key is null or key <> all (controls.shut_keys))
        and (expires_at is null or expires_at > coalesce(%(now)s, statement_timestamp()))
      order by seq
      limit least(l.most, allowed.room)
      for no key update skip locked) j
    limit least(s.most, (select r.room from room r where r.kind = 'queue' and r.name = s.queue))) j
  where (select w.expires_at > coalesce(%(now)s, statement_timestamp()) from {schema}.worker w where w.id = %(worker)s)
    and s.queue <> all (controls.shut_queues)
),
{part light},
claimed as (
  update {schema}.job
  set state = 'x', claim = {part next_claim}, attempt = attempt + 1, worker_id = %(worker)s,
      claimed_at = coalesce(%(now)s, statement_timestamp()),
      -- Each is a query of its own, which runs once and not for every job.
      limited = (select anything from controls) and (queue = any ((select counted_queues from controls)::text[])
        or {part handler} = any ((select counted_tasks from controls)::text[])),
      rated_in = case key_limit when 0 then ((select rated_in from controls)::xid8[])[array_position(
        (select rated_tasks from controls), {part handler})] end
  where ctid = any (array(select ctid from light))
  returning id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
            input::text, options::text, headers::text, carried::text,
            {part opens {part handler} <> all ((select narrow_tasks from controls)::text[])} as opens,
            rated_in, crashes
),
spent as (
  insert into {schema}.bucket (key, rated_in, spent_until)
  select {schema}.bucket_of(r.kind, r.name), r.rated_in,
         greatest(r.until, coalesce(%(now)s, statement_timestamp())) + make_interval(secs => taken.count / r.rate)
  from room r join (
    select 'queue' as kind, queue as name, count(*) from claimed where (select rates from controls) group by 2
    union all
    select 'task', {part handler}, count(*)
    from claimed where (select rates from controls) group by 2) taken on r.kind = taken.kind and r.name = taken.name
  where r.rate is not null
  order by 1
  on conflict (key) do update set rated_in = excluded.rated_in, spent_until = excluded.spent_until
),
noted as (
  insert into {schema}.start (key, handler, rated_in, started_at, count)
  select key, min({part handler}), rated_in, coalesce(%(now)s, statement_timestamp()), count(*)
  from claimed where rated_in is not null group by key, rated_in
)
select id, claim, task, step, attempt, max_attempts, queue, priority, seq, key, input, options, headers, carried, crashes, opens,
       (select count(*) from light) < (select count(*) from pick) as cut
from claimed order by priority desc, seq
