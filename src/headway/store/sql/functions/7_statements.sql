-- Statements of Python's operators and readers as functions with the owner's rights, so that they need no right to a table.
-- * Each has the parameters of one statement that changes something, and its text.
-- * Clients call them (sql/calls). Workers run the statements themselves.
-- * The moment is for tests: only the owner may choose it.
-- * Values that no constraint checks are checked here, because an operator may call these functions directly.

create or replace function {schema}.check_moment(given timestamptz) returns void
language plpgsql stable as $$
begin
  -- In a function with the owner's rights, `current_user` is the owner.
  if given is not null and not pg_has_role(
      coalesce(nullif(current_setting('role'), 'none'), session_user::text)::name, current_user, 'usage') then
    raise exception using errcode = 'insufficient_privilege', message = 'only the owner of the schema may choose the moment',
      hint = 'Pass null for the moment of the database.';
  end if;
end $$;

create or replace function {schema}.check_control(kind text, name text) returns void
language plpgsql stable as $$
begin
  if kind is distinct from 'key' then
    perform {schema}.check_name(coalesce(kind, 'kind'), coalesce(name, ''));
  elsif name is null or name = '' or char_length(name) > 602 or name ~ '[[:cntrl:]]' then  -- as core/keys.py
    perform {schema}.refuse(format('key %L is not a key', left(name, 220)), 'Give a key of a job.');
  end if;
end $$;

create or replace function {schema}.operator_cancel(_ids jsonb, _channel text, _done text, _now timestamptz)
returns table (id text, came_to text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {move cancel};
end $$;

create or replace function {schema}.operator_revive(_id uuid, _step text, _channel text, _now timestamptz)
returns table (notified text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {move revive};
end $$;

create or replace function {schema}.operator_edit(_id uuid, _step text, _input jsonb)
returns table (id text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if jsonb_typeof(_input) is distinct from 'object' then
    perform {schema}.check_input('input', _input);
  end if;
  perform {schema}.check_readable(_input);
  return query
  {write edit};
end $$;

create or replace function {schema}.operator_purge(
  _queue text, _task text, _after uuid, _before timestamptz, _channel text, _done text, _now timestamptz)
returns table (changed bigint, meant bigint, last uuid, before timestamptz, notified bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {move purge};
end $$;

create or replace function {schema}.operator_transfer(
  _queue text, _target text, _task text, _after uuid, _before timestamptz, _channel text, _now timestamptz)
returns table (changed bigint, meant bigint, last uuid, before timestamptz, notified bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  perform {schema}.check_name('target', coalesce(_target, ''));
  return query
  {move transfer};
end $$;

create or replace function {schema}.operator_pause(
  _kind text, _name text, _actor text, _reason text, _until timestamptz, _lasting double precision, _channel text,
  _now timestamptz)
returns table (paused_at timestamptz, notified text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  perform {schema}.check_control(_kind, _name);
  if _until > timestamptz '9999-12-31 00:00+00' or _lasting not between 0 and 3153600000 then
    perform {schema}.refuse('a pause ends within 100 years, or when someone ends it',
      'Leave the end out for a pause that someone has to end.');
  end if;
  return query
  {write pause};
end $$;

create or replace function {schema}.operator_resume(_kind text, _name text, _channel text, _now timestamptz)
returns table (shut boolean, notified text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {write resume};
end $$;

create or replace function {schema}.operator_set_limit(
  _kind text, _name text, _concurrency integer, _rate double precision, _burst integer, _actor text, _channel text,
  _now timestamptz)
returns table (notified text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  perform {schema}.check_control(_kind, _name);
  perform {schema}.check_limit(_kind, _concurrency, _rate, _burst);
  return query
  {write set_limit};
end $$;

create or replace function {schema}.operator_reset_limit(_kind text, _name text, _channel text)
returns table (notified text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  {write reset_limit};
end $$;

create or replace function {schema}.operator_mark_limited(_worker bigint) returns table (marked bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  {write mark_limited};
end $$;

create or replace function {schema}.operator_drain_worker(_worker bigint, _channel text, _now timestamptz)
returns table (id bigint, notified text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {write drain_worker};
end $$;

create or replace function {schema}.operator_pause_schedule(_name text, _actor text, _reason text, _now timestamptz)
returns table (paused_at timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {write pause_schedule};
end $$;

create or replace function {schema}.operator_resume_schedule(_name text, _channel text, _now timestamptz)
returns table (resumed boolean, resumed_rows bigint, notified bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {write resume_schedule};
end $$;

create or replace function {schema}.operator_run_schedule(_name text, _id uuid, _channel text, _now timestamptz)
returns table (id uuid)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {write run_schedule};
end $$;

-- A reader that waits for a job is notified of its end. The one row that this adds is deleted when the job ends.
create or replace function {schema}.reader_await(_id uuid, _now timestamptz) returns table (job_id uuid)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.check_moment(_now);
  return query
  {write await};
end $$;
