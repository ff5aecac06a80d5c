-- Runs jobs from any language: claim, work, settle.
-- * Every write is fenced by (id, claim number) and is the engine's own text.
-- * Time is clock_timestamp(): the transaction may have begun long before the claim.
-- * The functions turn sequential scans off while they run, as the engine does on its connections. A session keeps a plan
--   that was made while the table was short, and it would walk a long one.
-- * Functions about one job also turn off the joins that read a table to its end.
-- * JIT is off: a plan that needs what is turned off has a high cost, and compiling it would take seconds.

drop function if exists {schema}.claim(text, integer, interval, text[]);
create or replace function {schema}.claim(
  queue text, count integer default 1, lease interval default '30 s', tasks text[] default null)
returns table (id uuid, claim bigint, task text, step text, attempt integer, max_attempts integer,
               priority integer, input jsonb, headers jsonb, carried jsonb, key text)
language plpgsql volatile set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  _now timestamptz := clock_timestamp();
  _queues jsonb := jsonb_build_array(queue);
  _room integer := count;
  _tasks jsonb;
  _counting boolean := false;
  _shares jsonb;
  _worker bigint;
  bound text[];
  lane record;
  taken record;
  claimed integer := 0;
  moment bigint := extract(epoch from _now) * 1000;
begin
  perform {schema}.check_name('queue', coalesce(queue, ''));
  if count is null or count not between 1 and 10000 then
    perform {schema}.refuse(format('count %s is not from 1 to 10000', coalesce(count::text, 'null')), 'Claim as many jobs as you can run within the lease.');
  end if;
  if lease is null or lease not between interval '1 s' and interval '1 day' then
    perform {schema}.refuse(format('lease %s is not between a second and a day', lease),
      'Keep it short and call extend while you work: after the lease another consumer gets the job.');
  end if;
  perform {schema}.check_readable(to_jsonb(tasks));
  if abs(moment - (select last_value from {schema}.swept)) >= 1000 and not {schema}.fleet_lives() then
    perform setval('{schema}.swept', moment);
    perform {schema}.sweep();
  end if;
  if {schema}.paused('queue', queue, _now) then
    return;
  end if;
  -- Tasks with a limit have a line of their own. Null stands for all the others.
  select array_agg(c.name order by c.name) into bound from {schema}.control c
  where c.kind = 'task' and (c.concurrency is not null or c.rate is not null)
    and (tasks is null or c.name = any (tasks));
  _tasks := coalesce(to_jsonb(bound), '[]');
  for lane in
    select found.priority from (
      {read lanes}
    ) found where found.queue is not null order by found.priority desc
  loop
    if _worker is null then
      -- Limits that another claim has locked are skipped, as in the engine. Counting needs a snapshot that is newer than
      -- the lock: in other isolation levels there is none, and all limits are skipped.
      if current_setting('transaction_isolation') = 'read committed' then
        perform from (
          {write lock_limits}
        ) locked;
      end if;
      insert into {schema}.worker (name, version, slots, queues, tasks, started_at, seen_at, expires_at)
      values ('sql ' || pg_backend_pid() || coalesce(' ' || nullif(current_setting('application_name'), ''), ''), 'sql',
              _room, _queues, coalesce(to_jsonb(tasks), '[]'), _now, _now, _now + lease)
      returning id into _worker;
    end if;
    select jsonb_build_array(jsonb_build_object('queue', queue, 'most', _room - claimed, 'lines', jsonb_agg(
             jsonb_build_object('priority', lane.priority, 'cursor', 0, 'most', _room - claimed,
               'handlers', case when alone is null then to_jsonb(tasks) else jsonb_build_array(alone) end,
               'alone', alone is not null)))) into _shares
    from unnest(null::text || coalesce(bound, '{}')) alone;
    _now := clock_timestamp();
    for taken in
      {move claim}
    loop
      id := taken.id;
      claim := taken.claim;
      task := taken.task;
      step := taken.step;
      attempt := taken.attempt;
      max_attempts := taken.max_attempts;
      priority := taken.priority;
      input := taken.input;
      headers := taken.headers;
      carried := taken.carried;
      key := taken.key;
      return next;
      claimed := claimed + 1;
      if taken.opens then                       -- when it commits
        perform pg_notify('{plain}_work', 'room ' || taken.id);
      end if;
    end loop;
    exit when claimed >= _room;
  end loop;
  if claimed = 0 then
    delete from {schema}.worker where id = _worker;
  end if;
end $$;

-- Lock and return the job if the claim is current, otherwise a row of nulls.
-- * It waits for a session that is about to take the claim away.
create or replace function {schema}.held(job_id uuid, number bigint) returns {schema}.job
language sql volatile as $$
  select * from {schema}.job where id = job_id and claim = number and state = 'x' for update
$$;

create or replace function {schema}.asked_to_stop(id uuid) returns boolean
language sql stable as $$
  select exists (select 1 from {schema}.stop_request r where r.job_id = asked_to_stop.id)
$$;

-- Run after a claim was settled: admit others to the room that it freed, and delete the consumer after its last job.
create or replace function {schema}.after_claim(was {schema}.job) returns void
language plpgsql volatile as $$
declare
  stands {schema}.job;
  freed boolean;
begin
  select * into stands from {schema}.job j where j.id = was.id;
  freed := was.holds and not (coalesce(stands.holds, false) and stands.key is not distinct from was.key);
  if freed then
    perform pg_notify('{plain}_work', 'room ' || was.id);
  end if;
  if freed or stands.state = 'b' then
    perform {schema}.admit_keys(jsonb_build_array(was.key, stands.key));
  end if;
  if was.limited then
    perform pg_notify('{plain}_work', 'open queue ' || was.queue),
            pg_notify('{plain}_work', 'open task ' || {part handler was});
  end if;
  delete from {schema}.worker w where w.id = was.worker_id and w.version = 'sql'
    and not exists (select 1 from {schema}.job j where j.worker_id = w.id);
end $$;

create or replace function {schema}.finish_claim(was {schema}.job, final "char", result jsonb, error jsonb) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  _done text := '{plain}_done';
  _careful boolean := true;                     -- the row is locked, by us
  _verdicts jsonb := jsonb_build_array(jsonb_build_object(
    'job_id', was.id, 'claim', was.claim, 'state', final, 'result', result, 'error', error));
  answer record;
  held boolean := true;
begin
  perform {schema}.check_readable(_verdicts);
  for answer in
    {move finish}
  loop
    held := held and answer.id is null;
  end loop;
  if held then
    perform {schema}.after_claim(was);
  end if;
  return held;
end $$;

create or replace function {schema}.requeue_claim(
  was {schema}.job, delay double precision, given_back boolean, keeps_place boolean, error jsonb) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  _worker bigint := was.worker_id;
  _verdicts jsonb := jsonb_build_array(jsonb_build_object(
    'job_id', was.id, 'claim', was.claim, 'delay', delay, 'given_back', given_back, 'keeps_place', keeps_place,
    'new_crashes', case when keeps_place then 0 end, 'error', error));
  answer record;
  held boolean := true;
begin
  perform {schema}.check_readable(_verdicts);
  if {schema}.asked_to_stop(was.id) then        -- it must not run again
    return {schema}.finish_claim(was, 'c', null,
      jsonb_build_object('type', 'Cancelled', 'message', 'cancelled while it ran'));
  end if;
  for answer in
    {move requeue}
  loop
    held := held and answer.id is null;
  end loop;
  if held then
    perform {schema}.after_claim(was);
  end if;
  return held;
end $$;

create or replace function {schema}.extend(id uuid, claim bigint, lease interval default '30 s') returns boolean
language plpgsql volatile set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  job_id uuid := id;
  number bigint := claim;
begin
  if lease is null or lease not between interval '1 s' and interval '1 day' then
    perform {schema}.refuse(format('lease %s is not between a second and a day', lease),
      'Give more than the time until your next call of extend.');
  end if;
  -- All jobs of one call of claim share the lease: no call shortens it. A lease that ran out is not extended.
  update {schema}.worker w
  set seen_at = clock_timestamp(), expires_at = greatest(w.expires_at, clock_timestamp() + lease)
  from {schema}.job j
  where j.id = job_id and j.claim = number and j.state = 'x' and not {schema}.asked_to_stop(j.id)
    and w.id = j.worker_id and w.version = 'sql' and w.expires_at > clock_timestamp();
  return found;
end $$;

create or replace function {schema}.complete(id uuid, claim bigint, result jsonb default null) returns boolean
language plpgsql volatile set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  was {schema}.job := {schema}.held(id, claim);
begin
  return was.id is not null and {schema}.finish_claim(was, 'd', result, null);
end $$;

create or replace function {schema}.fail(
  id uuid, claim bigint, message text, again boolean default true, delay interval default null) returns boolean
language plpgsql volatile set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  was {schema}.job := {schema}.held(id, claim);
  error jsonb := jsonb_build_object('type', 'Failed', 'message', left(coalesce(message, ''), 8000));
  wait double precision := {schema}.seconds_of('delay', to_jsonb(extract(epoch from delay)));
begin
  if was.id is null then
    return false;
  end if;
  if {schema}.asked_to_stop(was.id) or (coalesce(again, true) and was.attempt < was.max_attempts) then
    -- The default of core/retry.py: doubling from a second to an hour.
    return {schema}.requeue_claim(was,
      coalesce(wait, least(3600, 2 ^ least(was.attempt - 1, 12)) * (0.5 + random() / 2)), false, false, error);
  end if;
  return {schema}.finish_claim(was, 'f', null, error);
end $$;

create or replace function {schema}.release(id uuid, claim bigint) returns boolean
language plpgsql volatile set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  was {schema}.job := {schema}.held(id, claim);
begin
  return was.id is not null and {schema}.requeue_claim(was, 0, true, true, null);
end $$;

create or replace function {schema}.snooze(id uuid, claim bigint, delay interval) returns boolean
language plpgsql volatile set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  was {schema}.job := {schema}.held(id, claim);
  wait double precision := {schema}.seconds_of('delay', to_jsonb(extract(epoch from delay)));
begin
  if wait is null then
    perform {schema}.refuse('delay is null', 'Give the time until it runs again. To give it back at once, call release.');
  end if;
  return was.id is not null and {schema}.requeue_claim(was, wait, true, false, null);
end $$;

create or replace function {schema}.advance(
  id uuid, claim bigint, step text, input jsonb default '{}', delay interval default null,
  carried jsonb default null) returns boolean
language plpgsql volatile set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  was {schema}.job := {schema}.held(id, claim);
  known {schema}.task;
  key jsonb;
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  _verdicts jsonb;
  wait double precision := {schema}.seconds_of('delay', to_jsonb(extract(epoch from delay)));
  answer record;
  moved boolean := true;
begin
  perform {schema}.check_name('step', coalesce(step, ''));
  if strpos(step, '/') > 0 then
    perform {schema}.refuse(format('step %L has a / in it', step), 'Give the name of the step alone, without its flow.');
  end if;
  perform {schema}.check_input('input', input);
  perform {schema}.check_readable(jsonb_build_array(input, carried));
  if was.id is null then
    return false;
  end if;
  if {schema}.asked_to_stop(was.id) then        -- it must not run again
    return {schema}.finish_claim(was, 'c', null,
      jsonb_build_object('type', 'Cancelled', 'message', 'cancelled while it ran'));
  end if;
  select * into known from {schema}.task t where t.name = was.task || '/' || advance.step;
  -- The key is the one that the job was made with. Only their code knows the keys of single steps.
  key := case when was.options ? 'key' then was.options -> 'key' else '[null, null, false]' end;
  _verdicts := jsonb_build_array(jsonb_build_object(
    'job_id', was.id, 'claim', was.claim, 'step', step, 'delay', coalesce(wait, 0), 'input', input,
    'carried', coalesce(carried, was.carried),
    'queue', coalesce(known.queue, was.queue), 'priority', coalesce(known.priority, was.priority),
    'max_attempts', coalesce(known.max_attempts, was.max_attempts),
    'key', key -> 0, 'key_limit', key -> 1, 'ordered', key -> 2));
  for answer in
    {move advance}
  loop
    moved := moved and answer.id is null;
  end loop;
  if moved then
    perform {schema}.after_claim(was);
  end if;
  return moved;
end $$;

comment on function {schema}.claim is
  'Claims up to `count` ready jobs of a queue for the lease, the highest priority first: of all tasks, or of `tasks` '
  '(a task, or flow/step). Settle each with its id and claim number: complete, fail, release, snooze or advance.';
comment on function {schema}.extend is
  'Extends the lease of a claim, and of those claimed with it. If it returns false, stop: the claim is lost, or the job is cancelled.';
comment on function {schema}.complete is
  'Ends the job as succeeded, with this result. Returns false and changes nothing if the claim is not current.';
comment on function {schema}.fail is
  'Ends the attempt as failed. The job runs again after the delay (left out: doubling from a second to an hour) while it '
  'has attempts left and `again` is true; otherwise it fails. Returns false and changes nothing if the claim is not current.';
comment on function {schema}.release is
  'Gives the job back at once: it keeps its place and the attempt does not count. Returns false if the claim is not current.';
comment on function {schema}.snooze is
  'Runs the job again after the delay; the attempt does not count. Returns false if the claim is not current.';
comment on function {schema}.advance is
  'Ends this step of a flow and goes to another, in one write. Left out, the carried state of the flow stays as it is. '
  'Returns false if the claim is not current.';
