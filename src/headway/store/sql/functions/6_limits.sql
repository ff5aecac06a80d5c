-- Limits from any language: set, reset and list them. A rate is written as everywhere: '10/s', '100/min', '1/10s'.

-- Return the starts per second of a rate as people write it. core/limits.py reads the same.
create or replace function {schema}.per_second(rate text) returns double precision
language plpgsql immutable as $$
declare
  parts text[] := regexp_match(lower(btrim(rate) collate "C"),
    E'^(\\d+(?:\\.\\d+)?)\\s*/\\s*(\\d+(?:\\.\\d+)?)?\\s*(s|sec|second|m|min|minute|h|hour|d|day)$');
  span double precision;
begin
  if rate is null then
    return null;
  end if;
  span := coalesce(parts[2]::double precision, 1)
    * case left(parts[3], 1) when 's' then 1 when 'm' then 60 when 'h' then 3600 when 'd' then 86400 end;
  if parts is null or span <= 0 or parts[1]::double precision / span not between 1e-6 and 1e6 then
    perform {schema}.refuse(format('rate %L cannot be read', rate), 'Write it like ''10/s'', ''100/min'' or ''1/10s''.');
  end if;
  return parts[1]::double precision / span;
end $$;

-- Return the name of the bucket of a queue or task. A user's key has no control characters, so it is never the same.
create or replace function {schema}.bucket_of(kind text, name text) returns text
language sql immutable parallel safe as $$
  select chr(31) || kind || ' ' || name
$$;

-- Return how many jobs may start now under a rate, null without a rate. By `spent_until` all tokens are earned again.
create or replace function {schema}.tokens(
  rate double precision, burst integer, spent_until timestamptz, moment timestamptz) returns integer
language sql immutable parallel safe as $$
  select case when rate is not null then greatest(0, floor(burst + 0.000001
    - rate * greatest(0, extract(epoch from spent_until - moment)::double precision)))::integer end
$$;

create or replace function {schema}.check_limit(
  kind text, concurrency integer, rate double precision, burst integer) returns void
language plpgsql stable as $$
declare
  fewest integer := (kind = 'keys')::integer;   -- 0 shuts a queue or a task
begin
  if concurrency not between fewest and 1000000 then
    perform {schema}.refuse(format('concurrency %s is not from %s to 1000000', concurrency, fewest),
      'Leave it out for no limit.');
  end if;
  if rate not between 1e-6 and 1e6 then         -- NaN is not
    perform {schema}.refuse(format('rate %s is not from 0.000001 to 1000000 a second', rate), 'Leave it out for no rate.');
  end if;
  if burst not between 1 and 1000000 or (burst is null) <> (rate is null) then
    perform {schema}.refuse(format('burst %s is not from 1 to 1000000, or has no rate', burst), 'Give both, or the rate alone.');
  end if;
end $$;

create or replace function {schema}.set_limit(
  queue text default null, concurrency integer default null, rate text default null, burst integer default null,
  actor text default current_user, task text default null, keys_of text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _kind text := {schema}.limited(queue, task, keys_of);
  _name text := coalesce(queue, task, keys_of);
  _concurrency integer := concurrency;
  _rate double precision := {schema}.per_second(rate);
  _burst integer := burst;
  _actor text := actor;
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  ignored text;
begin
  if _rate is not null then
    _burst := coalesce(_burst, greatest(1, floor(_rate / 10))::integer);  -- as core/limits.py
  end if;
  perform {schema}.check_limit(_kind, _concurrency, _rate, _burst);
  {write set_limit}
  into ignored;
end $$;

create or replace function {schema}.reset_limit(
  queue text default null, task text default null, keys_of text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  _kind text := {schema}.limited(queue, task, keys_of);
  _name text := coalesce(queue, task, keys_of);
  _channel text := '{plain}_work';
  answer record;
  was_set boolean := false;
begin
  for answer in
    {write reset_limit}
  loop
    was_set := true;
  end loop;
  return was_set;
end $$;

-- Return the kind of a limit. Refuse a call that does not name exactly one queue, task or keys_of.
create or replace function {schema}.limited(queue text, task text, keys_of text) returns text
language plpgsql stable as $$
begin
  if num_nonnulls(queue, task, keys_of) <> 1 then
    perform {schema}.refuse('exactly one of queue, task and keys_of must be given', 'Name one: queue => ''mail''.');
  end if;
  perform {schema}.check_name(case when queue is not null then 'queue' else 'task' end, coalesce(queue, task, keys_of));
  return case when queue is not null then 'queue' when task is not null then 'task' else 'keys' end;
end $$;

create or replace view {schema}.controls as
select kind, name, concurrency, rate as rate_per_second, burst, declared, changed_at, changed_by,
       paused_at is not null and coalesce(paused_until > now(), true) as paused,
       paused_at, paused_until, paused_by, pause_reason
from {schema}.control
-- Without the rows of pauses that are over.
where num_nonnulls(concurrency, rate, declared, changed_at) > 0 or paused_at is not null and coalesce(paused_until > now(), true);

comment on view {schema}.controls is
  'Every pause and limit of queues, tasks, keys and each key of a task. Stable: columns are only added.';
comment on column {schema}.controls.kind is 'queue, task (a task, a flow or flow/step), key, or keys: each key of a task.';
comment on column {schema}.controls.concurrency is 'How many run at once in the whole fleet; null: any number.';
comment on column {schema}.controls.rate_per_second is 'How many start in a second; null: any number.';
comment on column {schema}.controls.burst is 'How many start at once after a quiet time.';
comment on column {schema}.controls.declared is 'The limits that the code declares. They apply unless a person set others.';
comment on column {schema}.controls.changed_by is 'The person who set other limits.';
comment on column {schema}.controls.paused_by is 'The person who paused it.';
comment on function {schema}.set_limit is
  'Limits how many jobs of a queue, of a task or of each key of a task run at once and start in a time, in the whole fleet '
  'and from the next claim on. A number that is left out does not limit anything.';
comment on function {schema}.reset_limit is
  'Restores the limits that the code declares. Returns false if nobody had set others.';
