-- Everything lives in one schema and nothing outside it is touched. Tables are private; the functions
-- and views in sql/functions are the stable surface. Invariants (I1..) are numbered in
-- headway/core/state.py.

create sequence {schema}.job_seq as bigint;

-- Live jobs only. Columns run from wide and fixed to variable, so that no byte goes to padding. Text in an index is
-- of the collation "C" here as everywhere: that of a language changes with the libraries of the system.
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
  key_limit    smallint,                        -- how many of its key may hold room at once
  state        "char" not null,
  cancelling   boolean not null default false,  -- a running job was asked to stop
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
  constraint job_state check (state in ('r', 's', 'b', 'x', 'w')),
  constraint job_worker check ((state = 'x') = (worker_id is not null)),  -- I2
  constraint job_holds check (key is not null or not holds)               -- I9
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05);

-- A lane (queue and priority) is an append-only log: seq is drawn when a job becomes ready.
create index job_ready on {schema}.job (queue, priority, seq) where state = 'r';
create index job_scheduled on {schema}.job (run_at) where state = 's';
-- Many entries of one value that soon are dead: merging them into lists, and taking those apart again to find the
-- dead, costs more than it saves.
create index job_held on {schema}.job (worker_id) with (deduplicate_items = off) where worker_id is not null;
create index job_expiry on {schema}.job (expires_at) where expires_at is not null;

-- The line behind a key; an ordered job knows no priority. Beside it, what joined a line of late: its
-- condition is written so that only joined.sql has the same. To the planner, which seldom has statistics of
-- blocked jobs, the two would look alike, and it would walk all lines to find one.
create index job_line on {schema}.job (key, (case when ordered then 0 else -priority end), seq)
  where state = 'b';
create index job_blocked on {schema}.job (seq) where case when state = 'b' then true end;
create index job_holding on {schema}.job (key) with (deduplicate_items = off) where holds;  -- as job_held

create unique index job_unique on {schema}.job (task, unique_key)
  where unique_key is not null and (not until_claimed or claim = 0);

-- Unique keys that outlive their job: taken until a moment, whatever became of it.
create table {schema}.unique_period (
  task         text collate "C" not null,
  key          text collate "C" not null,
  job_id       uuid not null,
  until        timestamptz not null,
  primary key (task, key)
);
create index unique_period_until on {schema}.unique_period (until);

-- What workers declared of the tasks they know, and of a flow's steps as `flow/step`: for whoever
-- makes or ends a job without the code at hand.
create table {schema}.task (
  name           text collate "C" primary key,
  first_step     text not null default '',
  queue          text not null,
  priority       smallint not null,
  max_attempts   smallint not null,
  keep_succeeded interval,                      -- null: deleted at once
  keep_failed    interval,
  dead_letter    text,                          -- the queue where a failed job goes as a new one
  on_failure     text                           -- the task that is called with the failure
);

-- A job to be made, as enqueue_jobs takes it. Durations are seconds.
create type {schema}.new_job as (
  id uuid, queue text, task text, step text, priority smallint, at timestamptz,
  delay double precision, ttl double precision, max_attempts smallint,
  key text, key_limit smallint, ordered boolean,
  unique_key text, on_taken text, until_claimed boolean, period double precision,
  input jsonb, options jsonb, headers jsonb, carried jsonb
);

-- Finished jobs, by the day until which they are kept: retention drops a partition, never a row.
create table {schema}.archive (
  id           uuid not null,
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  started_at   timestamptz,
  finished_at  timestamptz not null,
  kept_until   timestamptz not null,
  expires_at   timestamptz,
  worker_id    bigint,
  claim        integer not null,
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
  result       jsonb,
  error        jsonb
) partition by range (kept_until);
create index archive_id on {schema}.archive (id);

-- One row for every attempt that failed, and for every step of a flow that was done.
create table {schema}.attempt (
  job_id       uuid not null,
  failed_in    xid8 not null default pg_current_xact_id(),  -- finds what committed late
  started_at   timestamptz,
  finished_at  timestamptz not null,
  worker_id    bigint,
  claim        integer not null,
  attempt      smallint not null,
  outcome      "char" not null,                 -- r(etried), f(ailed), c(ancelled), n(ext), d(one)
  task         text not null,
  queue        text not null,
  step         text not null,
  next_step    text,
  error        jsonb,
  input        jsonb,                           -- of a step, so that it can be gone back to
  carried      jsonb
) partition by range (finished_at);
create index attempt_job on {schema}.attempt (job_id);
create index attempt_failure on {schema}.attempt (failed_in) where outcome = 'f';

-- A net under the daily partitions: a day that nobody made a partition for loses nothing.
create table {schema}.archive_other partition of {schema}.archive default;
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

-- Jobs whose result someone is waiting for; whoever ends the job removes the row and tells them.
create table {schema}.awaited (
  job_id       uuid primary key,
  since        timestamptz not null
);
