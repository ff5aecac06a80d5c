-- ready -> running.
-- One statement for all queues of a worker, each with its share of the room, and all lanes of each, in the
-- order given: priority is strict within a queue because the joins below are nested loops in that order and
-- the limits stop them early.
-- Each lane is read behind the worker's cursor (l.s), so what lies dead at its start is not walked.
-- `for no key update skip locked`: many claimers never wait for each other. By ctid, because a
-- second index descent per job costs more than the rest of the claim; a row that changed between
-- snapshot and lock is simply not claimed this time.
-- A worker whose own lease ran out claims nothing (its jobs would look lost at once). A step that it
-- does not know is left for one that does: l.t are handlers, `task` or `flow/step`; for
-- a consumer in SQL it is null: all.
-- Limits of queues and tasks are kept here: behind lock_limits.sql, which says in a setting of this
-- transaction which of them are ours until it commits, so that what is counted is all there is. One that is
-- not is shut for now. A task with a limit is claimed only on a line of its own (l.o), one to a statement.
-- Starts under a rate of each key are only noted, for whoever admits under the key (admit.sql): its tokens were
-- kept for those who are ready. `opens` says that another of its key may be let in now that it has started: where
-- starts have a rate, or the limit is higher than a turn.
-- The claim number counts in its upper half and is drawn at random in its lower half, so that no claim has the number
-- of another, also not after a failover that forgot some claims (I3).
-- A claim is bounded in bytes (4 MiB as stored, or one job): the rest of what was picked is left, and `cut` says so.
-- Now is when this statement began, not its transaction, which may have waited for the lock of a key: a start is
-- never dated before its being let in.
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
said as materialized (
  select count(*) filter (where kind <> 'keys') > 0 as anything,
    coalesce(bool_or(rate is not null) filter (where kind <> 'keys'), false) as rates,
    array_agg(name order by name) filter (where kind = 'keys' and rate is not null) as rated_tasks,
    array_agg(rated_in order by name) filter (where kind = 'keys' and rate is not null) as rated_in,
    coalesce(array_agg(name) filter (where kind = 'keys' and rate is null and concurrency <= 32), '{}') as narrow_tasks,
    coalesce(array_agg(name) filter (where kind = 'queue' and (paused or bound and not locked)), '{}') as shut_queues,
    coalesce(array_agg(name) filter (where kind = 'task' and (paused or bound and not locked)), '{}') as shut_tasks,
    -- A pause may name a whole flow; a limit is of a step.
    coalesce(array_agg(name) filter (where kind = 'task' and paused), '{}') as paused_tasks,
    coalesce(array_agg(name) filter (where kind = 'key' and paused), '{}') as shut_keys,
    coalesce(array_agg(name) filter (where kind = 'task' and bound), '{}') as bound_tasks,
    coalesce(array_agg(name) filter (where kind = 'queue' and concurrency is not null), '{}') as counted_queues,
    coalesce(array_agg(name) filter (where kind = 'task' and concurrency is not null), '{}') as counted_tasks
  from control
),
room as materialized (
  select kind, name, greatest(0, least(
    -- No further than to the limit, and from the newest on: who is dead to us, but not to an old
    -- snapshot, is older than that.
    concurrency - case kind
      when 'queue' then (select count(*) from (
        select from {schema}.job where queue = c.name and state = 'x' and limited
        order by seq desc limit c.concurrency) r)
      else (select count(*) from (
        select from {schema}.job
        where task = split_part(c.name, '/', 1) and step = split_part(c.name, '/', 2) and state = 'x' and limited
        order by seq desc limit c.concurrency) r) end,
    {schema}.tokens(rate, burst, s.until, coalesce(%(now)s, statement_timestamp())))) as room, rate, rated_in, s.until
  from control c
  left join lateral (
    select b.spent_until as until from {schema}.bucket b
    where b.key = {schema}.bucket_of(c.kind, c.name) and b.rated_in = c.rated_in) s on rate is not null
  where kind in ('queue', 'task') and bound and locked and not paused
),
pick as materialized (
  select j.ctid, j.weight
  from said, jsonb_to_recordset(%(shares)s::jsonb) as s(q text, n integer, l jsonb)
  cross join lateral (
    select j.ctid, j.weight
    from jsonb_to_recordset(s.l) as l(p smallint, s bigint, n integer, t text[], o boolean)
    cross join lateral (
      select case when l.t is null or not said.anything then l.t else array(
        select handler from unnest(l.t) handler
        where handler <> all (said.shut_tasks) and split_part(handler, '/', 1) <> all (said.paused_tasks)
          and (l.o or handler <> all (said.bound_tasks))) end as t,
        case when l.o then (select r.room from room r where r.kind = 'task' and r.name = l.t[1]) end as room
    ) allowed
    cross join lateral (
      select ctid, pg_column_size(input) as weight from {schema}.job
      where state = 'r' and queue = s.q and priority = l.p and seq > l.s
        and (allowed.t is null or case step when '' then task else task || '/' || step end = any (allowed.t))
        and (allowed.t is not null or not said.anything
             or case step when '' then task else task || '/' || step end <> all (said.bound_tasks || said.shut_tasks)
                and task <> all (said.paused_tasks))
        and (not said.anything or key is null or key <> all (said.shut_keys))
        and (expires_at is null or expires_at > coalesce(%(now)s, statement_timestamp()))
      order by seq
      limit least(l.n, allowed.room)
      for no key update skip locked) j
    limit least(s.n, (select r.room from room r where r.kind = 'queue' and r.name = s.q))) j
  where (select w.expires_at > coalesce(%(now)s, statement_timestamp()) from {schema}.worker w where w.id = %(worker)s)
    and s.q <> all (said.shut_queues)
),
light as materialized (
  select ctid, before from (
    select ctid, sum(weight) over (rows between unbounded preceding and 1 preceding) as before from pick) p
  where before is null or before < 4194304
),
claimed as (
  update {schema}.job
  set state = 'x', claim = (((claim >> 32) + 1) << 32) + floor(random() * 4294967296)::bigint, attempt = attempt + 1, worker_id = %(worker)s,
      claimed_at = coalesce(%(now)s, statement_timestamp()),
      -- Each a query of its own, so that it is run once and not for every job.
      limited = (select anything from said) and (queue = any ((select counted_queues from said)::text[])
        or case step when '' then task else task || '/' || step end = any ((select counted_tasks from said)::text[])),
      rated_in = case key_limit when 0 then ((select rated_in from said)::xid8[])[array_position(
        (select rated_tasks from said), case step when '' then task else task || '/' || step end)] end
  where ctid = any (array(select ctid from light))
  returning id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
            input::text, options::text, headers::text, carried::text,
            case when key_limit is null then false when key_limit > 0 then key_limit > 32
              else case step when '' then task else task || '/' || step end <> all ((select narrow_tasks from said)::text[]) end as opens,
            rated_in, crashes
),
spent as (
  insert into {schema}.bucket (key, rated_in, spent_until)
  select {schema}.bucket_of(r.kind, r.name), r.rated_in,
         greatest(r.until, coalesce(%(now)s, statement_timestamp())) + make_interval(secs => taken.count / r.rate)
  from room r join (
    select 'queue' as kind, queue as name, count(*) from claimed where (select rates from said) group by 2
    union all
    select 'task', case step when '' then task else task || '/' || step end, count(*)
    from claimed where (select rates from said) group by 2) taken on r.kind = taken.kind and r.name = taken.name
  where r.rate is not null
  order by 1
  on conflict (key) do update set rated_in = excluded.rated_in, spent_until = excluded.spent_until
),
noted as (
  insert into {schema}.start (key, handler, rated_in, started_at, count)
  select key, min(case step when '' then task else task || '/' || step end), rated_in, coalesce(%(now)s, statement_timestamp()), count(*)
  from claimed where rated_in is not null group by key, rated_in
)
select id, claim, task, step, attempt, max_attempts, queue, priority, seq, key, input, options, headers, carried, crashes, opens,
       (select count(*) from light) < (select count(*) from pick) as cut
from claimed order by priority desc, seq
