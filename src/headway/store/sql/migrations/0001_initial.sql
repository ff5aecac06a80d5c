-- Everything lives in one schema and nothing outside it is touched. Tables are private; the views
-- at the end are the stable surface. Invariants (I1..) are numbered in headway/core/state.py.

create sequence {schema}.job_seq as bigint;

-- Live jobs only. Columns run from wide and fixed to variable, so that no byte goes to padding.
create table {schema}.job (
  id           uuid primary key,
  seq          bigint not null default nextval('{schema}.job_seq'),
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  claimed_at   timestamptz,                     -- of the newest claim
  expires_at   timestamptz,
  worker_id    bigint,
  claim        integer not null default 0,      -- I3: the fencing number
  attempt      smallint not null default 0,
  max_attempts smallint not null,
  priority     smallint not null default 0,
  state        "char" not null,
  cancelling   boolean not null default false,  -- a running job was asked to stop
  queue        text not null,
  task         text not null,
  step         text not null default '',
  input        jsonb not null,
  options      jsonb,
  headers      jsonb,
  progress     jsonb,
  constraint job_state check (state in ('r', 's', 'b', 'x', 'w')),
  constraint job_worker check ((state = 'x') = (worker_id is not null))   -- I2
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05);

-- A lane (queue and priority) is an append-only log: seq is drawn when a job becomes ready.
create index job_ready on {schema}.job (queue, priority, seq) where state = 'r';
create index job_scheduled on {schema}.job (run_at) where state = 's';
create index job_held on {schema}.job (worker_id) where worker_id is not null;
create index job_expiry on {schema}.job (expires_at) where expires_at is not null;

-- Finished jobs, by outcome and then by day: retention drops a partition, never a row.
create table {schema}.archive (
  id           uuid not null,
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  started_at   timestamptz,
  finished_at  timestamptz not null,
  expires_at   timestamptz,
  worker_id    bigint,
  claim        integer not null,
  attempt      smallint not null,
  max_attempts smallint not null,
  priority     smallint not null,
  state        "char" not null,
  queue        text not null,
  task         text not null,
  step         text not null,
  input        jsonb not null,
  options      jsonb,
  headers      jsonb,
  result       jsonb,
  error        jsonb
) partition by list (state);
create index archive_id on {schema}.archive (id);

create table {schema}.archive_succeeded partition of {schema}.archive
  for values in ('d') partition by range (finished_at);
create table {schema}.archive_failed partition of {schema}.archive
  for values in ('f', 'c', 'e') partition by range (finished_at);

-- One row for every attempt that failed.
create table {schema}.attempt (
  job_id       uuid not null,
  started_at   timestamptz,
  finished_at  timestamptz not null,
  worker_id    bigint,
  claim        integer not null,
  attempt      smallint not null,
  step         text not null,
  error        jsonb not null
) partition by range (finished_at);
create index attempt_job on {schema}.attempt (job_id);

-- A net under the daily partitions: a day that nobody made a partition for loses nothing.
create table {schema}.archive_succeeded_other partition of {schema}.archive_succeeded default;
create table {schema}.archive_failed_other partition of {schema}.archive_failed default;
create table {schema}.attempt_other partition of {schema}.attempt default;

-- One heartbeat row per process; low fillfactor keeps its updates on the page (HOT).
create table {schema}.worker (
  id           bigint generated always as identity primary key,
  name         text not null,                   -- host and pid, for people
  version      text not null,
  slots        integer not null,
  queues       jsonb not null,
  tasks        jsonb not null,
  started_at   timestamptz not null,
  seen_at      timestamptz not null,
  expires_at   timestamptz not null
) with (fillfactor = 50);

-- Who runs a fleet-wide duty, for as long as the lease.
create table {schema}.duty (
  name         text primary key,
  worker_id    bigint not null,
  expires_at   timestamptz not null
) with (fillfactor = 50);

create table {schema}.queue (
  name         text primary key,
  paused_at    timestamptz,
  paused_by    text,
  pause_reason text
);

-- Jobs whose result someone is waiting for; whoever ends the job removes the row and tells them.
create table {schema}.awaited (
  job_id       uuid primary key,
  since        timestamptz not null
);

-- Daily partitions from the day of `moment` on. Attaching a finished table takes a weaker lock on
-- the parent than creating a partition in place; the lock timeout bounds how long anyone waits.
create function {schema}.add_partitions(moment timestamptz, days integer) returns integer
language plpgsql as $$
declare
  parent text;
  first timestamp;
  child text;
  made integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0)) then
    return 0;                                   -- someone is at it
  end if;
  perform set_config('lock_timeout', '250ms', true);
  foreach parent in array array['archive_succeeded', 'archive_failed', 'attempt'] loop
    for first in select generate_series(
      date_trunc('day', moment at time zone 'UTC'),
      date_trunc('day', moment at time zone 'UTC') + make_interval(days => days), '1 day')
    loop
      child := parent || to_char(first, '_YYYYMMDD');
      if to_regclass(format('{schema}.%I', child)) is null then
        begin
          execute format('create table {schema}.%I (like {schema}.%I including all)', child, parent);
          execute format('alter table {schema}.%I attach partition {schema}.%I for values from (%L) to (%L)',
            parent, child, first at time zone 'UTC', (first + interval '1 day') at time zone 'UTC');
          made := made + 1;
        exception
          -- The net holds rows of that day already and goes on catching them.
          when check_violation then
            raise notice 'partition % left for later: %', child, sqlerrm;
          -- A reader is in the way, and would be for this parent's other days too: so that nobody
          -- waits for long, they are all left to the next sweep.
          when lock_not_available then
            raise notice 'partition % left for later: %', child, sqlerrm;
            exit;
        end;
      end if;
    end loop;
  end loop;
  return made;
end $$;

-- Drops the daily partitions that lie wholly before the kept period. What fell into the net is
-- deleted row by row; there should be none.
create function {schema}.drop_partitions(moment timestamptz, keep_succeeded interval, keep_failed interval)
returns integer language plpgsql as $$
declare
  doomed record;
  busy oid := 0;                                -- a parent that someone else is reading
  dropped integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0)) then
    return 0;
  end if;
  perform set_config('lock_timeout', '250ms', true);
  for doomed in
    select c.oid::regclass as child, p.oid as parent
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_class p on p.oid = i.inhparent
    where p.relnamespace = '{schema}'::regnamespace
      and p.relname in ('archive_succeeded', 'archive_failed', 'attempt')
      and c.relname ~ '_[0-9]{8}$'
      and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
          <= moment - case p.relname when 'archive_succeeded' then keep_succeeded else keep_failed end
    order by p.oid, c.relname
  loop
    continue when doomed.parent = busy;
    begin
      execute format('drop table %s', doomed.child);
      dropped := dropped + 1;
    exception when lock_not_available then
      raise notice 'partition % left for later: %', doomed.child, sqlerrm;
      busy := doomed.parent;
    end;
  end loop;
  begin
    delete from {schema}.archive_succeeded_other where finished_at <= moment - keep_succeeded;
    delete from {schema}.archive_failed_other where finished_at <= moment - keep_failed;
    delete from {schema}.attempt_other where finished_at <= moment - keep_failed;
  exception when lock_not_available then
    raise notice 'rows in the net left for later: %', sqlerrm;
  end;
  return dropped;
end $$;

select {schema}.add_partitions(now(), 3);

create function {schema}.label(state "char") returns text language sql immutable parallel safe as $$
  select case state
    when 'r' then 'ready' when 's' then 'scheduled' when 'b' then 'blocked' when 'x' then 'running'
    when 'w' then 'waiting' when 'd' then 'succeeded' when 'f' then 'failed' when 'c' then 'cancelled'
    when 'e' then 'expired' end
$$;

create view {schema}.jobs as
select id, task, queue, step, {schema}.label(state) as state, priority, attempt, max_attempts, run_at,
       created_at, case state when 'x' then claimed_at end as started_at,
       null::timestamptz as finished_at, worker_id as worker, input, null::jsonb as result,
       null::jsonb as error, headers, null::jsonb as keys, progress, expires_at
from {schema}.job
union all
select id, task, queue, step, {schema}.label(state), priority, attempt, max_attempts, run_at,
       created_at, started_at, finished_at, worker_id, input, result, error, headers, null, null,
       expires_at
from {schema}.archive;

create view {schema}.queues as
select coalesce(j.name, q.name) as queue,
       coalesce(j.ready, 0) as ready, coalesce(j.scheduled, 0) as scheduled,
       coalesce(j.blocked, 0) as blocked, coalesce(j.running, 0) as running,
       coalesce(j.waiting, 0) as waiting, j.oldest_ready_at,
       q.paused_at is not null as paused, q.paused_at, q.paused_by, q.pause_reason
from (
  select queue as name,
         count(*) filter (where state = 'r') as ready,
         count(*) filter (where state = 's') as scheduled,
         count(*) filter (where state = 'b') as blocked,
         count(*) filter (where state = 'x') as running,
         count(*) filter (where state = 'w') as waiting,
         min(run_at) filter (where state = 'r') as oldest_ready_at
  from {schema}.job group by queue) j
full join {schema}.queue q on q.name = j.name;

comment on view {schema}.jobs is 'Every job, live and archived alike. Stable: columns are only added.';
comment on view {schema}.queues is 'Every queue with jobs or settings, and what waits in it. Stable: columns are only added.';
