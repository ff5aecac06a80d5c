-- Operates jobs and queues from any language.
-- * Security definer, like the functions of producers: an operator needs no right to a table.

create or replace function {schema}.retry(id uuid, from_step text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _id uuid := id;
  _step text := from_step;
  _channel text := '{plain}_work';
  _now timestamptz := clock_timestamp();
  answer record;
begin
  -- A job that moves between tables at this moment is not seen. Then it tries again, as store/scripts.py does.
  for try in 1 .. 20 loop
    begin
      for answer in
        {move revive}
      loop
        return true;
      end loop;
    exception when unique_violation then
      null;                                     -- its unique key was taken at this moment
    end;
    exit when not exists (select 1 from {schema}.archive a where a.id = _id and a.state in ('f', 'c', 'e'))
      and not exists (select 1 from {schema}.job j where j.id = _id and j.state = 's' and _step is null);
  end loop;
  return false;
end $$;

create or replace function {schema}.cancel(id uuid) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _ids jsonb := jsonb_build_array(id);
  _channel text := '{plain}_work';
  _done text := '{plain}_done';
  _now timestamptz := clock_timestamp();
  answer record;
  cancelled boolean := false;
begin
  for answer in
    {move cancel}
  loop
    cancelled := true;
  end loop;
  return cancelled;
end $$;

create or replace function {schema}.edit(id uuid, input jsonb) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _id uuid := id;
  _input jsonb := input;
  _step text;                                   -- null: wherever it stands
  answer record;
  edited boolean := false;
begin
  perform {schema}.check_input('input', _input);
  perform {schema}.check_readable(_input);
  for answer in
    {write edit}
  loop
    edited := true;
  end loop;
  return edited;
end $$;

-- Return whether a queue, task or key is paused at a moment.
create or replace function {schema}.paused(kind text, name text, moment timestamptz) returns boolean
language sql stable as $$
  select exists (
    select 1 from {schema}.control c
    where c.kind = paused.kind and c.name = paused.name and c.paused_at is not null
      and coalesce(c.paused_until > moment, true))
$$;

create or replace function {schema}.pause(
  queue text default null, reason text default null, actor text default current_user, until timestamptz default null,
  task text default null, key text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _kind text := {schema}.controlled(queue, task, key);
  _name text := coalesce(queue, task, key);
  _reason text := reason;
  _actor text := actor;
  _until timestamptz := until;
  _lasting double precision;
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  since timestamptz;
  ignored text;
begin
  if until not between _now and timestamptz '9999-12-31 00:00+00' then
    perform {schema}.refuse(format('until %s is not in the future, up to the year 9999', until),
      'Leave it out for a pause without an end.');
  end if;
  {write pause}
  into since, ignored;
  return since = _now;
end $$;

create or replace function {schema}.resume(queue text default null, task text default null, key text default null)
returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _kind text := {schema}.controlled(queue, task, key);
  _name text := coalesce(queue, task, key);
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  opened boolean;
  ignored text;
begin
  {write resume}
  into opened, ignored;
  return coalesce(opened, false);
end $$;

create or replace function {schema}.drain(worker bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _worker bigint := worker;
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  asked bigint;
  ignored text;
begin
  {write drain_worker}
  into asked, ignored;
  return asked is not null;
end $$;

-- Return the kind of a pause. Refuse a call that does not name exactly one queue, task or key.
create or replace function {schema}.controlled(queue text, task text, key text) returns text
language plpgsql stable as $$
begin
  if num_nonnulls(queue, task, key) <> 1 then
    perform {schema}.refuse('exactly one of queue, task and key must be given', 'Name one: queue => ''mail''.');
  end if;
  perform {schema}.check_name(case when queue is not null then 'queue' when task is not null then 'task' else 'key' end,
    coalesce(queue, task, key), key is null);
  return case when queue is not null then 'queue' when task is not null then 'task' else 'key' end;
end $$;

comment on function {schema}.retry is
  'Runs a failed, cancelled or expired job again at its step, or at an earlier step of its flow, with fresh attempts; '
  'runs a scheduled one now. Returns false if the job cannot be retried.';
comment on function {schema}.cancel is
  'Cancels a waiting job, and asks a running one to stop. Returns false if there is no such job, or it has ended.';
comment on function {schema}.edit is
  'Replaces the input of a job that waits, or that ended without success and may be retried. Returns false for others.';
comment on function {schema}.pause is
  'Pauses a queue, a task (or a whole flow) or a key in the whole fleet, until it is resumed or until a moment. Running '
  'jobs continue. Returns false if it was paused already: then by, reason and until are replaced.';
comment on function {schema}.drain is
  'Asks a worker to drain: it claims no more jobs, finishes those that run, and ends. Returns false if no such worker is alive.';
comment on function {schema}.resume is 'Resumes a paused queue, task or key. Returns false if it was not paused.';
