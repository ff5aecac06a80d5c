-- Looking after jobs and queues from any language. Security definer, like the functions of producers: an
-- operator needs no table.

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
  -- One that changes hands at this moment is not seen: then it is asked again, as store/scripts.py does.
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
  _id uuid := id;
  _channel text := '{plain}_work';
  _done text := '{plain}_done';
  _now timestamptz := clock_timestamp();
  answer record;
  cancelled boolean := false;
begin
  for try in 1 .. 20 loop
    for answer in
      {move cancel}
    loop
      cancelled := true;
    end loop;
    exit when cancelled or not exists (select 1 from {schema}.job j where j.id = _id);
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
  for answer in
    {write edit}
  loop
    edited := true;
  end loop;
  return edited;
end $$;

create or replace function {schema}.pause(queue text, reason text default null, by text default current_user) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _queue text := queue;
  _reason text := reason;
  _by text := by;
  _now timestamptz := clock_timestamp();
  since timestamptz;
begin
  perform {schema}.check_name('queue', coalesce(_queue, ''));
  {write pause_queue}
  into since;
  return since = _now;
end $$;

create or replace function {schema}.resume(queue text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _queue text := queue;
  _channel text := '{plain}_work';
  opened text;
  ignored text;
begin
  {write resume_queue}
  into opened, ignored;
  return opened is not null;
end $$;

comment on function {schema}.retry is
  'Runs a failed, cancelled or expired job again where it stood, or at an earlier step of its flow, with fresh attempts; '
  'a scheduled one now. False if there is nothing to repeat.';
comment on function {schema}.cancel is
  'Cancels a job that waits, and asks a running one to stop. False if there is no such job, or it has ended.';
comment on function {schema}.edit is
  'Corrects the input of a job that waits, or that ended without success and may be retried. False if it is neither.';
comment on function {schema}.pause is
  'Stops claims from a queue, everywhere; running jobs go on. False if it was paused already: then by and reason are new.';
comment on function {schema}.resume is 'Opens a paused queue. False if it was not paused.';
