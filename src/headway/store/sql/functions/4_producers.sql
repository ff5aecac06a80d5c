-- Makes jobs from any language: functions, and a view to insert into. All of them call enqueue_jobs.
-- * They have the owner's rights (security definer), so that a producer needs no right to a table. Hence the pinned
--   search_path and the qualified names.

create or replace function {schema}.refuse(problem text, hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = 'invalid_parameter_value', message = problem, hint = hint;
end $$;

-- Refuse a text that cannot name a task, queue, step or key. Only keys may have spaces at their ends.
create or replace function {schema}.check_name(what text, name text, trimmed boolean default true) returns void
language plpgsql as $$
begin
  if not {schema}.is_name(name, 200, trimmed) then
    perform {schema}.refuse(format('%s %L is not a name', what, left(name, 220)), format(
      'Give %s 1 to 200 printable characters%s.', what,
      case when trimmed then ' without spaces at its ends' else '' end));
  end if;
end $$;

create or replace function {schema}.check_input(what text, given jsonb, headers jsonb default null) returns void
language plpgsql as $$
begin
  if jsonb_typeof(given) is distinct from 'object' then
    perform {schema}.refuse(format('%s is %s, not a JSON object', what, coalesce(jsonb_typeof(given), 'null')),
      'Name the arguments of the task: {"user_id": 1}. Pass {} for a task that takes none.');
  end if;
  if octet_length(given::text) + coalesce(octet_length(headers::text), 0) > 16777216 then
    perform {schema}.refuse(format('%s is over 16 MiB of JSON%s', what, case when headers is not null then ', with its headers' end),
      'Store the data elsewhere and pass a reference to it.');
  end if;
  if given @? '$.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))' then
    perform {schema}.refuse(format('%s has a number beyond the range of a double', what), 'Pass it as text.');
  end if;
  if given @? 'strict $.**{200}' then
    perform {schema}.refuse(format('%s is nested more than 200 levels deep', what), 'Store the data with fewer levels, or pass it as text.');
  end if;
end $$;

-- Return the seconds of a duration in JSON: a number of seconds, or text that PostgreSQL reads as an interval.
-- * A day has 24 hours and a month has 30 days.
create or replace function {schema}.seconds_of(what text, given jsonb) returns double precision
language plpgsql stable as $$
declare
  seconds double precision;
begin
  if given is null or given = 'null' then
    return null;
  end if;
  begin
    seconds := case jsonb_typeof(given)
      when 'number' then (given #>> '{}')::double precision
      when 'string' then extract(epoch from (given #>> '{}')::interval)
      else 'NaN' end;
  exception when invalid_datetime_format or datetime_field_overflow or interval_field_overflow
              or numeric_value_out_of_range then
    seconds := 'NaN';
  end;
  if seconds not between 0 and 3153600000 then
    perform {schema}.refuse(format('%s %s is not between 0 and 100 years', what, given),
      'Write it like ''90 s'', ''5 min'' or ''3 days''; in JSON a number is seconds.');
  end if;
  return seconds;
end $$;

-- Turn a call as SQL callers write it into the document that enqueue_jobs takes.
-- * The task's declaration fills in the options that are left out.
create or replace function {schema}.prepare_job(given jsonb) returns jsonb
language plpgsql volatile as $$
declare
  unknown text;
  nested text;
  call record;
  known {schema}.task;
  stood {schema}.task;
  delay double precision;
  ttl double precision;
  period double precision;
  options jsonb;
begin
  if jsonb_typeof(given) is distinct from 'object' then
    perform {schema}.refuse(format('a job is %s, not a JSON object', coalesce(jsonb_typeof(given), 'null')),
      'Write each one like {"task": "welcome", "input": {"user_id": 1}}.');
  end if;
  select string_agg(quote_literal(key), ', ') filter (where key not in ('id', 'task', 'step', 'input', 'queue', 'delay',
           'at', 'priority', 'max_attempts', 'ttl', 'headers', 'concurrency_key', 'concurrency_limit', 'ordered',
           'unique_key', 'on_taken', 'scope', 'period', 'limit_key', 'no_keys')),
         string_agg(quote_literal(key), ', ') filter (where key not in ('input', 'headers')
           and jsonb_typeof(value) in ('object', 'array'))
    into unknown, nested from jsonb_each(given);
  if unknown is not null then
    perform {schema}.refuse(format('a job has no %s', unknown),
      'The names are those of the parameters of enqueue; what the task is called with goes into "input".');
  end if;
  if nested is not null then                    -- the text of a list would become a name
    perform {schema}.refuse(format('%s of a job is a list or an object', nested),
      'Only "input" and "headers" are objects; the others are texts, numbers, true or false.');
  end if;
  begin
    select * into call from jsonb_to_record(given) as c(id uuid, task text, step text, input jsonb, queue text,
      at timestamptz, priority integer, max_attempts integer, headers jsonb, concurrency_key text,
      concurrency_limit integer, ordered boolean, unique_key text, on_taken text, scope text, limit_key text,
      no_keys boolean);
  exception when data_exception then
    perform {schema}.refuse(format('a job has a value of the wrong type: %s', left(sqlerrm, 220)),
      'Give id a UUID, at a moment such as "2030-01-31T08:00:00Z", numbers as whole numbers, and true or false.');
  end;
  delay := {schema}.seconds_of('delay', given -> 'delay');
  ttl := {schema}.seconds_of('ttl', given -> 'ttl');
  period := {schema}.seconds_of('period', given -> 'period');

  perform {schema}.check_name('task', coalesce(call.task, ''));
  perform {schema}.check_name('queue', call.queue);
  perform {schema}.check_name('step', call.step);
  perform {schema}.check_name('concurrency_key', call.concurrency_key, false);
  perform {schema}.check_name('unique_key', call.unique_key, false);
  perform {schema}.check_name('limit_key', call.limit_key, false);
  if strpos(call.task, '/') > 0 or strpos(call.step, '/') > 0 then
    perform {schema}.refuse(format('task %L, step %L: a name cannot contain /, which separates a flow from its step', call.task, call.step),
      'Give the flow as the task, and where it starts as the step.');
  end if;
  perform {schema}.check_input('input', coalesce(call.input, '{}'), call.headers);
  if delay is not null and call.at is not null then
    perform {schema}.refuse('delay and at are both given', 'Give one of them.');
  end if;
  if call.at not between timestamptz '0001-01-01 00:00+00' and timestamptz '9999-12-31 00:00+00' then
    perform {schema}.refuse(format('at %s is not a moment in the years 1 to 9999', call.at),
      'Give a moment in these years. To hold jobs back without a date, pause their queue.');
  end if;
  if call.priority not between -32768 and 32767 then
    perform {schema}.refuse(format('priority %s is out of range', call.priority),
      'Give a whole number from -32768 to 32767; higher runs first.');
  end if;
  if call.max_attempts not between 1 and 32000 then
    perform {schema}.refuse(format('max_attempts %s is out of range', call.max_attempts),
      'Give a whole number from 1 to 32000; 1 means no retry.');
  end if;
  if call.headers is not null and (jsonb_typeof(call.headers) <> 'object' or exists (
      select 1 from jsonb_each(call.headers) h where jsonb_typeof(h.value) <> 'string')) then
    perform {schema}.refuse('headers are not a JSON object of texts', 'Write them like {"tenant": "acme"}.');
  end if;
  if call.concurrency_key is null and (call.concurrency_limit is not null or call.ordered) then
    perform {schema}.refuse('concurrency_limit or ordered is given without a concurrency_key',
      'Give concurrency_key as well.');
  end if;
  if call.limit_key is not null and call.concurrency_key is not null then
    perform {schema}.refuse('limit_key and concurrency_key are both given', 'A job waits behind one key; give one of them.');
  end if;
  if call.concurrency_limit not between 1 and 32000 then
    perform {schema}.refuse(format('concurrency_limit %s is out of range', call.concurrency_limit),
      'Give a whole number from 1 to 32000.');
  end if;
  if call.ordered and call.concurrency_limit > 1 then
    perform {schema}.refuse('an ordered key runs one job at a time', 'Leave concurrency_limit at 1.');
  end if;
  if call.on_taken not in ('skip', 'replace', 'reject') then
    perform {schema}.refuse(format('on_taken %L is not known', call.on_taken), 'Give skip, replace or reject.');
  end if;
  if call.scope not in ('unfinished', 'waiting') then
    perform {schema}.refuse(format('scope %L is not known', call.scope), 'Give unfinished or waiting.');
  end if;
  if period is not null and (period = 0 or call.unique_key is null or call.on_taken = 'replace') then
    perform {schema}.refuse('a period belongs to a unique key, is longer than nothing, and does not go with replace',
      'Give unique_key and a period such as ''1 hour'', with on_taken skip or reject.');
  end if;

  select * into known from {schema}.task t where t.name = call.task;
  call.step := coalesce(call.step, known.first_step, '');
  if call.step <> '' then
    select * into stood from {schema}.task t where t.name = call.task || '/' || call.step;
  end if;
  -- Only the task's code can make its keys. A job without them could run twice, out of order, or beyond its limit.
  select string_agg(key, ' and ') into unknown from unnest(coalesce(stood.keys, known.keys)) key
  where given ->> key is null;
  if unknown is not null and not coalesce(call.no_keys, false) then
    perform {schema}.refuse(format('task %s computes its %s in its code, and none is given', call.task, unknown),
      format('Enqueue it from Python (headway job enqueue --app), or give %s. For a job without: no_keys => true.', unknown));
  end if;
  -- For the steps that come later: what the call chose, as headway/calls.py keeps it.
  options := jsonb_strip_nulls(jsonb_build_object(
    'key', case when call.concurrency_key is not null then jsonb_build_array(
      call.concurrency_key, coalesce(call.concurrency_limit, 1), coalesce(call.ordered, false)) end,
    'queue', case when call.step <> '' then call.queue end,
    'priority', case when call.step <> '' then call.priority end,
    'max_attempts', case when call.step <> '' then call.max_attempts end));
  return jsonb_build_object(
    'options', nullif(options, '{}'),
    'id', coalesce(call.id, {schema}.new_id()), 'task', call.task, 'step', call.step,
    'input', coalesce(call.input, '{}'), 'at', call.at, 'delay', delay, 'ttl', ttl,
    'queue', coalesce(call.queue, stood.queue, known.queue, 'default'),
    'priority', coalesce(call.priority, stood.priority, known.priority, 0),
    'max_attempts', coalesce(call.max_attempts, stood.max_attempts, known.max_attempts, 20),
    'headers', nullif(call.headers, '{}'),
    -- A key under the task's own limit, named as in core/definition.py. The control `keys` has its numbers.
    'key', case when call.limit_key is not null then concat_ws('/', call.task, nullif(call.step, ''), call.limit_key)
                else call.concurrency_key end,
    'key_limit', case when call.limit_key is not null then 0 else call.concurrency_limit end, 'ordered', call.ordered,
    'unique_key', call.unique_key, 'on_taken', coalesce(call.on_taken, 'skip'), 'period', period,
    -- Only a job that waits can be replaced.
    'until_claimed', coalesce(call.scope = 'waiting' or call.on_taken = 'replace', false));
end $$;

create or replace function {schema}.enqueue_many(jobs jsonb) returns setof uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  _jobs jsonb;
  _channel text := '{plain}_work';
  _now timestamptz;                             -- null: that of the transaction, as for every producer
  _ids jsonb;
  taken jsonb;
  withdrawn bigint;
begin
  if jsonb_typeof(jobs) is distinct from 'array' then
    perform {schema}.refuse(format('jobs is %s, not a JSON array', coalesce(jsonb_typeof(jobs), 'null')),
      'Write it like [{"task": "welcome", "input": {"user_id": 1}}, ...].');
  end if;
  select jsonb_agg({schema}.prepare_job(g.job) order by g.place) into _jobs
  from jsonb_array_elements(jobs) with ordinality g(job, place);
  if _jobs is null then
    return;
  end if;
  select jsonb_object_agg(t.asked, t.id) into taken from (
    {move enqueue}
  ) t;
  select jsonb_agg(g.job -> 'id') into _ids from jsonb_array_elements(jobs) g(job) where g.job ->> 'id' is not null;
  if _ids is not null then                      -- it may be a repetition of what has run to its end
    with undone as (
      {move withdraw}
    )
    select count(*) into withdrawn from undone;
  end if;
  return query
    select coalesce(taken ->> (g.job ->> 'id'), g.job ->> 'id')::uuid
    from jsonb_array_elements(_jobs) with ordinality g(job, place) order by g.place;
end $$;

drop function if exists {schema}.enqueue(text, jsonb, text, interval, timestamptz, integer, integer, interval, jsonb,
  text, integer, boolean, text, text, text, interval, uuid, text),
  {schema}.enqueue(text, jsonb, text, interval, timestamptz, integer, integer, interval, jsonb,
  text, integer, boolean, text, text, text, interval, uuid, text, text);
create or replace function {schema}.enqueue(
  task text, input jsonb default '{}', queue text default null, delay interval default null,
  at timestamptz default null, priority integer default null, max_attempts integer default null,
  ttl interval default null, headers jsonb default null, concurrency_key text default null,
  concurrency_limit integer default null, ordered boolean default null, unique_key text default null,
  on_taken text default 'skip', scope text default 'unfinished', period interval default null,
  id uuid default null, step text default null, limit_key text default null, no_keys boolean default null)
returns uuid
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select made from {schema}.enqueue_many(jsonb_build_array(jsonb_build_object(
    'task', task, 'step', step, 'input', input, 'queue', queue, 'delay', extract(epoch from delay),
    'at', at, 'priority', priority, 'max_attempts', max_attempts, 'ttl', extract(epoch from ttl), 'headers', headers,
    'concurrency_key', concurrency_key, 'concurrency_limit', concurrency_limit, 'ordered', ordered,
    'unique_key', unique_key, 'on_taken', on_taken, 'scope', scope, 'period', extract(epoch from period),
    'id', id, 'limit_key', limit_key, 'no_keys', no_keys))) made
$$;

create or replace view {schema}.inbox as
select null::text as task, null::jsonb as input, null::text as queue, null::interval as delay,
       null::timestamptz as at, null::integer as priority, null::integer as max_attempts, null::interval as ttl,
       null::jsonb as headers, null::text as concurrency_key, null::integer as concurrency_limit,
       null::boolean as ordered, null::text as unique_key, null::text as on_taken, null::text as scope,
       null::interval as period, null::uuid as id, null::text as step, null::text as limit_key,
       null::boolean as no_keys
where false;

create or replace function {schema}.take_from_inbox() returns trigger
language plpgsql as $$
begin
  new.id := {schema}.enqueue(new.task, new.input, new.queue, new.delay, new.at, new.priority, new.max_attempts,
    new.ttl, new.headers, new.concurrency_key, new.concurrency_limit, new.ordered, new.unique_key, new.on_taken,
    new.scope, new.period, new.id, new.step, new.limit_key, new.no_keys);
  return new;
end $$;

create or replace trigger take_from_inbox instead of insert on {schema}.inbox
for each row execute function {schema}.take_from_inbox();

comment on function {schema}.enqueue is
  'Makes a job in the caller''s transaction and returns its id. Options left out are those that workers declared for the '
  'task, otherwise queue "default", priority 0, 20 attempts. If the unique key is taken, it returns the id of the job that '
  'has it, or raises SQLSTATE HW001 with on_taken => ''reject''.';
comment on function {schema}.enqueue_many is
  'Makes a job of each object of a JSON array, all or none, and returns their ids in order. An object has the parameters '
  'of enqueue. A number for a duration is in seconds.';
comment on view {schema}.inbox is
  'Insert a row to make a job: insert into inbox (task, input) values (...) returning id. The view is always empty.';
comment on column {schema}.inbox.id is 'The id of the job: a repetition with the same id makes no second job. Left out: a new id.';
comment on column {schema}.inbox.task is 'The name of the task or flow.';
comment on column {schema}.inbox.step is 'The step at which a flow starts. Left out: its first.';
comment on column {schema}.inbox.input is 'The arguments by name, a JSON object.';
comment on column {schema}.inbox.queue is 'Left out: as the task was declared, otherwise "default".';
comment on column {schema}.inbox.delay is 'The time from now until it may run.';
comment on column {schema}.inbox.at is 'The moment from which it may run. Give this or a delay.';
comment on column {schema}.inbox.priority is '-32768 to 32767; higher runs first within a queue.';
comment on column {schema}.inbox.max_attempts is 'The number of attempts, including the first.';
comment on column {schema}.inbox.ttl is 'The time that it may wait to run before it ends as expired.';
comment on column {schema}.inbox.headers is 'A JSON object of texts that travels with the job.';
comment on column {schema}.inbox.concurrency_key is 'At most concurrency_limit jobs with the same key run at once.';
comment on column {schema}.inbox.concurrency_limit is 'How many jobs of the key run at once. Left out: 1.';
comment on column {schema}.inbox.ordered is 'Whether jobs of the key run in the order in which they were made, also through retries.';
comment on column {schema}.inbox.limit_key is 'The key under the task''s own limit, if that is per key: Limit(key=...).';
comment on column {schema}.inbox.no_keys is 'True makes a job without the keys that the task''s code would give it.';
comment on column {schema}.inbox.unique_key is 'At most one job of the task with this key exists at a time.';
comment on column {schema}.inbox.on_taken is 'If the unique key is taken: skip (return the job that has it), replace (its input and moment), reject (an error).';
comment on column {schema}.inbox.scope is 'How long the unique key is taken: while the job is unfinished, or while it is waiting to be claimed.';
comment on column {schema}.inbox.period is 'The unique key is taken for this time from the making of the job, even after it has ended.';
