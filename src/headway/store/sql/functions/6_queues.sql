-- Changes all waiting jobs of a queue, from any language, in the caller's transaction.

create or replace function {schema}.purge(queue text, task text default null) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _queue text := queue;
  _task text := task;
  _now timestamptz := clock_timestamp();
  _before timestamptz := _now;
  _after uuid := '00000000-0000-0000-0000-000000000000';
  _channel text := '{plain}_work';
  _done text := '{plain}_done';
  portion record;
  purged bigint := 0;
begin
  perform {schema}.check_name('queue', coalesce(_queue, ''));
  while _after is not null loop
    {move purge}
    into portion;
    purged := purged + portion.changed;
    _after := portion.last;
  end loop;
  return purged;
end $$;

create or replace function {schema}.move(queue text, target text, task text default null) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _queue text := queue;
  _target text := target;
  _task text := task;
  _now timestamptz := clock_timestamp();
  _before timestamptz := _now;
  _after uuid := '00000000-0000-0000-0000-000000000000';
  _channel text := '{plain}_work';
  portion record;
  moved bigint := 0;
begin
  perform {schema}.check_name('queue', coalesce(_queue, ''));
  perform {schema}.check_name('target', coalesce(_target, ''));
  if _queue = _target then
    perform {schema}.refuse(format('queue and target are both %s', _queue), 'Give another target.');
  end if;
  while _after is not null loop
    {move transfer}
    into portion;
    moved := moved + portion.changed;
    _after := portion.last;
  end loop;
  return moved;
end $$;

comment on function {schema}.purge is
  'Cancels the waiting jobs of a queue, of all tasks or of one, and returns how many: ready, scheduled, blocked and waiting '
  'jobs, not running ones. They are in the archive and may be retried.';
comment on function {schema}.move is
  'Moves the waiting jobs of a queue to another, of all tasks or of one, and returns how many. A job keeps its state, its moment and its keys.';
