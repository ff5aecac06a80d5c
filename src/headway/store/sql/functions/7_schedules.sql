-- Schedules from any language: to look at them, pause and resume them, and run them now. They are put by Python, which
-- reads their specs.

-- The document of the job of one occurrence, made of the schedule's. The task's own unique key, or that of
-- overlap = 'skip', says more than that the occurrence is made once.
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

create or replace function {schema}.pause_schedule(name text, reason text default null, by text default current_user)
returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _name text := name;
  _reason text := reason;
  _by text := by;
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

comment on view {schema}.schedules is 'What is made again and again, and when. Stable: columns are only added.';
comment on column {schema}.schedules.name is 'Its name: what it was put as, or the task''s name.';
comment on column {schema}.schedules.spec is 'When, as it was written: "0 8 * * 1-5[Europe/Berlin]".';
comment on column {schema}.schedules.input is 'The arguments of each job by name.';
comment on column {schema}.schedules.owner is 'The name of the app that declared or put it; '''' if that has none.';
comment on column {schema}.schedules.declared is 'Whether code declares it, rather than someone who put it at run time.';
comment on column {schema}.schedules.catch_up is 'What becomes of missed occurrences: skip, one or all.';
comment on column {schema}.schedules.overlap is 'When the last job has not ended: allow, skip or queue.';
comment on column {schema}.schedules.next_at is 'The next occurrence; null if there is none, or no worker has looked at it yet.';
comment on column {schema}.schedules.last_at is 'The newest occurrence that was fired.';
comment on column {schema}.schedules.last_job is 'The job of that occurrence.';
comment on column {schema}.schedules.ends_at is 'No occurrence after this moment.';
comment on column {schema}.schedules.paused_by is 'Who paused it.';
comment on function {schema}.pause_schedule is
  'Stops a schedule until it is resumed; what it made goes on. False if there is none of this name.';
comment on function {schema}.resume_schedule is
  'Lets a paused schedule go on from now; what fell into the pause is not made up for. False if it was not paused.';
comment on function {schema}.run_schedule is
  'Makes a job of a schedule now, paused or not; its id, or that of the job that has its unique key. Null if there is '
  'no schedule of this name.';
