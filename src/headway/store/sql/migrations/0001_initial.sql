-- Creates the tables of jobs and workers, all of them in one schema.
-- * Tables are private. The functions and views in sql/functions are the stable surface.
-- * Invariants (I1..) are numbered in headway/core/state.py.

create sequence {schema}.job_seq as bigint;

-- Live jobs only.
-- * Columns go from wide and fixed to variable, so that no byte is padding.
-- * Text in an index has the collation "C" everywhere: those of languages change with the libraries of the system.
create table {schema}.job (
  id           uuid primary key,
  seq          bigint not null default nextval('{schema}.job_seq'),
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  claimed_at   timestamptz,                     -- of the newest claim
  expires_at   timestamptz,
  worker_id    bigint,
  claim        bigint not null default 0,       -- I3: the fencing number
  attempt      smallint not null default 0,
  max_attempts smallint not null,
  priority     smallint not null default 0,
  key_limit    smallint,                        -- how many of its key may hold room at once
  crashes      smallint not null default 0,     -- how often its process died under it since it last ended an attempt
  state        "char" not null,
  holds        boolean not null default false,  -- I9: it has room under its key
  ordered      boolean not null default false,  -- it keeps that room from its first claim to its end
  until_claimed boolean not null default false, -- its unique key counts until it is first claimed
  queue        text collate "C" not null,
  task         text collate "C" not null,
  step         text collate "C" not null default '',
  key          text collate "C",                -- of concurrency
  unique_key   text collate "C",
  input        jsonb not null,
  options      jsonb,
  headers      jsonb,
  progress     jsonb,
  carried      jsonb,                           -- a flow's state, from step to step
  -- Only cheap ones, because every claim evaluates them, too. enqueue_jobs checks the rest, once.
  constraint job_names check (octet_length(queue) between 1 and 800 and octet_length(task) between 1 and 800
    and octet_length(step) <= 800 and octet_length(key) <= 2408 and octet_length(unique_key) <= 800),
  constraint job_moments check (run_at between '0001-01-01 00:00+00' and '9999-12-31 00:00+00'
    and created_at between '0001-01-01 00:00+00' and '9999-12-31 00:00+00'
    and expires_at between '0001-01-01 00:00+00' and '9999-12-31 00:00+00'),
  constraint job_numbers check (max_attempts >= 1 and attempt >= 0 and key_limit >= 0 and crashes >= 0),
  constraint job_state check (state in ('r', 's', 'b', 'x', 'w')),
  constraint job_worker check ((state = 'x') = (worker_id is not null)),  -- I2
  constraint job_holds check (key is not null or not holds)               -- I9
) with (fillfactor = 50,                        -- a claim writes the new row on the same page, and locks it once: 12 % less WAL
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05);

-- A lane (queue and priority) is an append-only log: seq is drawn when a job becomes ready.
create index job_ready on {schema}.job (queue, priority, seq) where state = 'r';
create index job_scheduled on {schema}.job (run_at) where state = 's';
-- It has many entries of one value, which soon are dead. Merging them into lists, and splitting those to find the dead
-- ones, costs more than it saves.
create index job_held on {schema}.job (worker_id) with (deduplicate_items = off) where worker_id is not null;
create index job_expiry on {schema}.job (expires_at) where expires_at is not null;

-- The line of a key. An ordered job has no priority.
-- job_blocked has the jobs that joined a line recently. Its condition is written so that only joined.sql has the same: the
-- planner seldom has statistics of blocked jobs, and would walk all lines to find one.
create index job_line on {schema}.job (key, (case when ordered then 0 else -priority end), seq)
  where state = 'b';
create index job_blocked on {schema}.job (seq) where case when state = 'b' then true end;
create index job_holding on {schema}.job (key) with (deduplicate_items = off) where holds;  -- as job_held

create unique index job_unique on {schema}.job (task, unique_key)
  where unique_key is not null and (not until_claimed or claim = 0);

-- Unique keys that outlive their job: taken until a moment.
create table {schema}.unique_period (
  task         text collate "C" not null,
  key          text collate "C" not null,
  job_id       uuid not null,
  until        timestamptz not null,
  primary key (task, key)
);
create index unique_period_until on {schema}.unique_period (until);

-- What workers declared about their tasks, and about a flow's steps as `flow/step`. SQL callers, and those who end a job
-- without its code, use it.
create table {schema}.task (
  name           text collate "C" primary key,
  first_step     text not null default '',
  queue          text not null,
  priority       smallint not null,
  max_attempts   smallint not null,
  max_crashes    smallint not null default 3,
  keep_succeeded interval,                      -- null: deleted at once
  keep_failed    interval,
  dead_letter    text,                          -- the queue where a failed job goes as a new one
  on_failure     text,                          -- the task that is called with the failure
  keys           text[] not null default '{}'   -- what its code makes of a call: unique_key, concurrency_key, limit_key
);

-- A job to be made, as enqueue_jobs takes it. Durations are seconds.
create type {schema}.new_job as (
  id uuid, queue text, task text, step text, priority smallint, at timestamptz,
  delay double precision, ttl double precision, max_attempts smallint,
  key text, key_limit smallint, ordered boolean,
  unique_key text, on_taken text, until_claimed boolean, period double precision,
  input jsonb, options jsonb, headers jsonb, carried jsonb
);

-- Finished jobs, by the day until which they are kept: retention drops a partition, not its rows. Jobs that are kept
-- for longer than a quarter lie by month, for longer than three years by year, for good (98 years) in archive_rest.
-- A day's partition never overlaps that of a month, because the length of the keeping comes first in the key.
create table {schema}.archive (
  id           uuid not null,
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  started_at   timestamptz,
  finished_at  timestamptz not null,
  kept_until   timestamptz not null,
  expires_at   timestamptz,
  worker_id    bigint,
  claim        bigint not null,
  attempt      smallint not null,
  max_attempts smallint not null,
  priority     smallint not null,
  key_limit    smallint,
  state        "char" not null,
  ordered      boolean not null,
  until_claimed boolean not null,
  queue        text not null,
  task         text not null,
  step         text not null,
  input        jsonb not null,
  options      jsonb,
  headers      jsonb,
  key          text,
  unique_key   text,
  carried      jsonb,
  progress     jsonb,                           -- the last that its handler said, of its last attempt
  result       jsonb,
  error        jsonb,
  spilled      boolean                          -- moved from archive_other to archive_rest; null: it was not
) partition by range ((case when spilled then 3
                            when kept_until - finished_at <= interval '93 days' then 0
                            when kept_until - finished_at <= interval '1100 days' then 1
                            when kept_until - finished_at <= interval '36000 days' then 2
                            else 3 end), kept_until);
create index archive_id on {schema}.archive (id);

-- One row for every attempt that failed, and for every step of a flow that was done.
create table {schema}.attempt (
  job_id       uuid not null,
  failed_in    xid8 not null default pg_current_xact_id(),  -- finds what committed late
  started_at   timestamptz,
  finished_at  timestamptz not null,
  worker_id    bigint,
  claim        bigint not null,
  attempt      smallint not null,
  key_limit    smallint,                        -- with key and ordered: of a step, so that it can be gone back to
  ordered      boolean,
  outcome      "char" not null,                 -- r(etried), f(ailed), c(ancelled), n(ext), d(one)
  task         text not null,
  queue        text not null,
  step         text not null,
  next_step    text,
  error        jsonb,
  key          text,
  input        jsonb,                           -- of a step, so that it can be gone back to
  carried      jsonb,
  spilled      boolean                          -- moved from attempt_other to attempt_rest; null: it was not
) partition by range ((case when spilled then 3 else 0 end), finished_at);
create index attempt_job on {schema}.attempt (job_id);
create index attempt_failure on {schema}.attempt (failed_in) where outcome = 'f';

-- Default partitions: a day without a partition loses no row. Attaching a partition scans the default one under an
-- exclusive lock, so it must be empty: sweeps move its rows to `_rest`, where they are deleted when over.
create table {schema}.archive_other partition of {schema}.archive default;
create table {schema}.attempt_other partition of {schema}.attempt default;
create table {schema}.archive_rest partition of {schema}.archive for values from (3, minvalue) to (3, maxvalue);
create table {schema}.attempt_rest partition of {schema}.attempt for values from (3, minvalue) to (3, maxvalue);
create index archive_rest_kept on {schema}.archive_rest (kept_until);
create index attempt_rest_finished on {schema}.attempt_rest (finished_at);

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

-- Leader election: the worker that runs the fleet's sweeps, for as long as its lease.
create table {schema}.leader (
  name         text collate "C" primary key,
  worker_id    bigint not null,
  expires_at   timestamptz not null
) with (fillfactor = 50);

create table {schema}.queue (
  name         text collate "C" primary key,
  paused_at    timestamptz,
  paused_by    text,
  pause_reason text
);

-- Requests to stop a job, for the worker that runs it, or for the leader if it waits.
-- * A request is a row of its own: a transaction that stays open after it has no lock on the job.
-- * Two requests for one job do no harm.
create table {schema}.stop_request (
  job_id       uuid not null,
  asked_at     timestamptz not null
);
create index stop_request_job on {schema}.stop_request (job_id);

-- Requests to drain a worker, for the same reason not in the worker's row: its heartbeat never waits for them.
create table {schema}.drain_request (
  worker_id    bigint not null,
  asked_at     timestamptz not null
);

-- Jobs that ended and were not kept, for an hour: a repeated enqueue of the same id makes nothing new.
create table {schema}.unkept (
  id           uuid primary key,
  ended_at     timestamptz not null
);
create index unkept_ended on {schema}.unkept (ended_at);

-- Tables without a primary key: under a publication of all tables nothing could be deleted from them (G16).
-- Partitions have their own (add_partitions).
alter table {schema}.archive_other replica identity full;
alter table {schema}.archive_rest replica identity full;
alter table {schema}.attempt_other replica identity full;
alter table {schema}.attempt_rest replica identity full;
alter table {schema}.stop_request replica identity full;
alter table {schema}.drain_request replica identity full;

-- Jobs whose end somebody awaits: a caller, or a follow-up whose group they are in. The statement that ends the job
-- deletes the rows and notifies them.
create table {schema}.awaited (
  job_id       uuid not null,
  since        timestamptz not null,
  follow_up    uuid not null default '00000000-0000-0000-0000-000000000000',  -- that one: a caller
  primary key (job_id, follow_up)
);

-- The groups of jobs that a follow-up waits for. It is a row of `job` itself.
-- * Nothing counts the members that have ended: the rows of `job` say which of them live. So no settle writes here.
-- * A group is open until its follow-up runs or has ended otherwise.
create table {schema}.fan_in (
  job_id       uuid primary key,                -- the follow-up
  members      uuid[] not null,                 -- in the order of the call
  witnesses    uuid[] not null,                 -- members that lived when somebody last looked; their ends are awaited
  all_but      integer not null,                -- how many members may still live when the follow-up runs
  made_at      timestamptz not null,
  gathered_at  timestamptz,                     -- when it was closed
  look_at      timestamptz not null             -- when clean_up asks whether the follow-up still exists
) with (fillfactor = 80);
create index fan_in_open on {schema}.fan_in (job_id) where gathered_at is null;
create index fan_in_look on {schema}.fan_in (look_at);
