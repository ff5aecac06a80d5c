-- Schedules from any language: list, pause, resume, and run now. Python puts them, because it reads their specs.

-- Return the document of the job of one occurrence.
-- * The task's own unique key, or that of overlap = 'skip', replaces the one by which an occurrence is made once.
create or replace function {schema}.occurrence_job(job jsonb, name text, id uuid, occurrence text, at timestamptz)
returns jsonb language sql stable as $$
  select job || jsonb_build_object(
    'id', id,
    'headers', coalesce(nullif(job -> 'headers', 'null'), '{}')
               || jsonb_build_object('schedule', name, 'occurrence', occurrence),
    'unique_key', coalesce(job ->> 'unique_key', name || '@' || occurrence),
    'at', at + make_interval(secs => coalesce((job ->> 'delay')::double precision, 0)))
$$;

create or replace view {schema}.schedules as
select name, task, spec, job -> 'input' as input, owner, declared, catch_up, overlap,
       case when next_at > done_until then next_at end as next_at, last_at, last_job, ends_at,
       paused_at is not null as paused, paused_at, paused_by, pause_reason, created_at, changed_at
from {schema}.schedule;

create or replace function {schema}.pause_schedule(name text, reason text default null, actor text default current_user)
returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _name text := name;
  _reason text := reason;
  _actor text := actor;
  _now timestamptz := clock_timestamp();
  answer record;
begin
  for answer in
    {write pause_schedule}
  loop
    return true;
  end loop;
  return false;
end $$;

create or replace function {schema}.resume_schedule(name text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _name text := name;
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  answer record;
begin
  for answer in
    {write resume_schedule}
  loop
    return answer.resumed;
  end loop;
  return false;
end $$;

create or replace function {schema}.run_schedule(name text) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _name text := name;
  _id uuid := {schema}.new_id();
  _now timestamptz;                             -- null: that of the transaction, as for every producer
  _channel text := '{plain}_work';
  answer record;
begin
  for answer in
    {write run_schedule}
  loop
    return answer.id;
  end loop;
  return null;
end $$;

comment on view {schema}.schedules is 'Every schedule and its next occurrence. Stable: columns are only added.';
comment on column {schema}.schedules.name is 'Its name. A schedule of a task that gives no name has the task''s name.';
comment on column {schema}.schedules.spec is 'When, as it was written: "0 8 * * 1-5[Europe/Berlin]".';
comment on column {schema}.schedules.input is 'The arguments of each job by name.';
comment on column {schema}.schedules.owner is 'The name of the app that declared or put it; '''' for an app without a name.';
comment on column {schema}.schedules.declared is 'True if code declares it, false if it was put at run time.';
comment on column {schema}.schedules.catch_up is 'How many missed occurrences fire later: skip (none), one or all.';
comment on column {schema}.schedules.overlap is 'If the last job has not ended: allow, skip or queue.';
comment on column {schema}.schedules.next_at is 'The next occurrence; null if there is none, or no worker has read it yet.';
comment on column {schema}.schedules.last_at is 'The newest occurrence that was fired.';
comment on column {schema}.schedules.last_job is 'The job of that occurrence.';
comment on column {schema}.schedules.ends_at is 'There is no occurrence after this moment.';
comment on column {schema}.schedules.paused_by is 'The person who paused it.';
comment on function {schema}.pause_schedule is
  'Pauses a schedule until it is resumed. Its jobs continue. Returns false if there is no schedule of this name.';
comment on function {schema}.resume_schedule is
  'Resumes a paused schedule from now on. Occurrences during the pause are not fired. Returns false if it was not paused.';
comment on function {schema}.run_schedule is
  'Makes a job of a schedule now, paused or not. Returns its id, or that of the job that has its unique key; null if no '
  'schedule has this name.';
