-- Creates the tables of pauses, limits, schedules and counts.

-- Pauses and limits of a queue, a task or a key. Claims and admissions read them.
--   queue  a queue, by name
--   task   a handler: a task, or a flow's step as `flow/step`; a pause may also name a whole flow
--   keys   each key of a handler (Limit(key=...)), by the handler's name
--   key    one concurrency key
create table {schema}.control (
  kind         text collate "C" not null constraint control_kind check (kind in ('queue', 'task', 'keys', 'key')),
  name         text collate "C" not null,
  paused_at    timestamptz,
  paused_until timestamptz,                     -- null: until someone resumes it
  paused_by    text,
  pause_reason text,
  concurrency  integer,                         -- running at once, in the whole fleet
  rate         double precision,                -- starts per second
  burst        integer,                         -- starts at once, if none was made for long
  rated_in     xid8 not null default pg_current_xact_id(),  -- the transaction that set the rate, which is known by it
  declared     jsonb,                           -- what the code says: concurrency, rate, burst
  changed_at   timestamptz,                     -- by a person; null: the limits are the declared ones
  changed_by   text,
  primary key (kind, name),
  constraint control_name check (octet_length(name) between 1 and 2408),
  constraint control_until check (paused_until between '0001-01-01 00:00+00' and '9999-12-31 00:00+00'),
  constraint control_concurrency check (concurrency >= 0),
  constraint control_rate check (rate > 0 and burst > 0),
  -- As check_readable: a claim reads these rows.
  constraint control_text check (getdatabaseencoding() = 'UTF8'
    or convert_to(concat_ws(' ', name, paused_by, pause_reason, changed_by), 'UTF8') is not null)
) with (fillfactor = 50);

insert into {schema}.control (kind, name, paused_at, paused_by, pause_reason)
select 'queue', name, paused_at, paused_by, pause_reason from {schema}.queue where paused_at is not null;
drop view if exists {schema}.queues;                      -- made anew with the functions
drop function if exists {schema}.pause(text, text, text), {schema}.resume(text);
drop table {schema}.queue;

-- Tokens of a rate: of one key, or of a queue or task (bucket_of). A row of another rate does not count, nor one
-- whose moment has passed; a sweep deletes it. Only claims and admissions write here, never a person: an open
-- transaction that changes a limit holds up no claim (G14).
create table {schema}.bucket (
  key          text collate "C" primary key,
  rated_in     xid8 not null,                   -- the rate that these tokens are of
  spent_until  timestamptz not null             -- when all tokens taken so far will have been earned
) with (fillfactor = 50);
create index bucket_spent on {schema}.bucket (spent_until);

-- Starts under a rate of each key, as claims record them: a row for each claim and key, so that no claim waits for
-- another. admit.sql adds them to the key's bucket. Negative counts are starts that were given back.
create table {schema}.start (
  key          text collate "C" not null,
  handler      text not null,                   -- whose limit it is
  rated_in     xid8 not null,
  started_at   timestamptz not null,
  count        integer not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index start_key on {schema}.start (key);

-- The line of a key in sections, of which one may be shut (able_in_line). As with job_blocked, its condition is written so
-- that no other query has the same: a query for the first of the whole line must not sort it by sections.
create index job_part on {schema}.job
  (key, ordered, queue, task, step, (case when ordered then 0 else -priority end), seq)
  where case state when 'b' then true end;

-- Jobs that count under the limit of their queue or task; newest first, because under an old snapshot the dead rows are the
-- oldest. Jobs without such a limit are in neither index.
alter table {schema}.job
  add column limited boolean not null default false,  -- it was claimed, or ran, under such a limit
  add column rated_in xid8;                           -- while it runs: the rate of its key that it took a token of
create index job_limited_queue on {schema}.job (queue, seq) where state = 'x' and limited;
create index job_limited_task on {schema}.job (task, step, seq) where state = 'x' and limited;

-- Schedules. `job` is the document that enqueue_jobs takes, without id and moment.
create table {schema}.schedule (
  name         text collate "C" primary key,
  owner        text not null default '',        -- the app that declared or put it
  declared     boolean not null default false,  -- in code, and cleaned up with it
  task         text not null,
  spec         text not null,                   -- as it was written: "0 8 * * 1-5[Europe/Berlin]"
  job          jsonb not null,
  catch_up     text not null constraint schedule_catch_up check (catch_up in ('skip', 'one', 'all')),
  most         integer not null,                -- of catch_up all: how many at most
  overlap      text not null constraint schedule_overlap check (overlap in ('allow', 'skip', 'queue')),
  jitter       double precision not null default 0,
  since        timestamptz not null,            -- "@every" counts from here
  done_until   timestamptz not null,            -- every occurrence up to here was fired or dropped
  next_at      timestamptz,                     -- when to look at it: its next occurrence, or at once; null: it has ended
  version      integer not null default 1,      -- grows with every change, so that nobody fires what was changed meanwhile
  last_at      timestamptz,                     -- the newest occurrence that was fired
  last_job     uuid,
  ends_at      timestamptz,
  paused_at    timestamptz,
  paused_by    text,
  pause_reason text,
  created_at   timestamptz not null,
  changed_at   timestamptz not null,
  constraint schedule_ends check (ends_at between '0001-01-01 00:00+00' and '9999-12-31 00:00+00'),
  constraint schedule_text check (getdatabaseencoding() = 'UTF8'
    or convert_to(concat_ws(' ', name, paused_by, pause_reason), 'UTF8') is not null)
) with (fillfactor = 50);
create index schedule_due on {schema}.schedule (next_at) where next_at is not null and paused_at is null;

alter table {schema}.worker
  add column survived boolean not null default false,   -- its process lost the lease and lives: it registered anew
  add column listening boolean,                         -- it hears notifications; null: it has not said
  add column trouble text,                              -- what is wrong with it; null: nothing
  add column schedules jsonb not null default '[]';     -- the names of those that its code declares

-- Ended jobs by queue and outcome. `tally` has a row for each settling, so that none waits for another. A sweep adds them
-- up in `total`, and deletes queues in which no job has ended for long.
create table {schema}.tally (
  queue        text not null,
  outcome      "char" not null,
  count        bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create table {schema}.total (
  queue        text collate "C" not null,
  outcome      "char" not null,
  count        bigint not null,
  changed_at   timestamptz not null,
  primary key (queue, outcome)
) with (fillfactor = 50);

-- How many live jobs of each state a queue had when they were last counted, for tables too long to count.
create table {schema}.census (
  queue        text collate "C" not null,
  state        "char" not null,
  count        bigint not null,
  taken_at     timestamptz not null,
  primary key (queue, state)
);

-- As in 0001: tables without a primary key.
alter table {schema}.start replica identity full;
alter table {schema}.tally replica identity full;
