-- Makes jobs. The engine, the drivers and the functions for SQL callers all use enqueue_jobs.

-- Return a UUIDv7, as core/ids.py does: milliseconds, then random bits.
create or replace function {schema}.new_id() returns uuid language sql volatile as $$
  select encode(set_byte(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    6, 112 + get_byte(uuid_send(gen_random_uuid()), 6) % 16), 'hex')::uuid
$$;

-- Refuse text that cannot be read in UTF-8, as workers read it: one such row would stop them all (G8).
-- * A database of the encoding SQL_ASCII stores any bytes. Some other encodings have codes without a character.
create or replace function {schema}.check_readable(given jsonb) returns void
language plpgsql stable as $$
begin
  if getdatabaseencoding() <> 'UTF8' then
    begin
      perform convert_to(given::text, 'UTF8');
    exception when character_not_in_repertoire or untranslatable_character then
      raise exception using errcode = 'invalid_parameter_value', message = 'a text cannot be read in UTF-8: ' || sqlerrm,
        hint = 'Set client_encoding to the encoding of your texts. To a database of the encoding SQL_ASCII, send UTF-8.';
    end;
  end if;
end $$;

-- Return whether text may name a queue, task, step or key.
-- * core/names.py has the same rule. Keys may have spaces at their ends.
-- * Most names are ASCII, which one pattern checks.
-- * A database of another encoding than UTF-8 cannot store the other characters, or does not know their codes.
create or replace function {schema}.is_name(name text, longest integer default 200, trimmed boolean default true)
returns boolean language sql stable parallel safe as $$
  select char_length(name) <= longest and ({part ascii_name name} or name <> ''
    and case pg_catalog.getdatabaseencoding() when 'UTF8'
        then name !~ E'[\\u0001-\\u001f\\u007f-\\u009f\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb]'
             and (not trimmed or left(name, 1) || right(name, 1) !~ E'[ \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000]')
        else name !~ E'[\\x01-\\x1f\\x7f]' and (not trimmed or name !~ '^ | $') and convert_to(name, 'UTF8') is not null end)
$$;

-- Refuse jobs that the library never makes.
-- * A producer may call enqueue_jobs with anything, and one bad row must not stop a sweep or a reader (G8).
-- * Constraints of the table check lengths, moments and numbers.
create or replace function {schema}.check_jobs(given {schema}.new_job[]) returns void
language plpgsql stable as $$
declare
  bad record;
begin
  select g.task, g.queue into bad from unnest(given) g
  where not ({schema}.is_name(g.queue) and {schema}.is_name(g.task) and jsonb_typeof(g.input) = 'object')
     or g.step <> '' and not {schema}.is_name(g.step)
     or strpos(concat(g.task, g.step), '/') > 0  -- it separates a flow from its step
     or not {schema}.is_name(g.key, 602, false) or not {schema}.is_name(g.unique_key, 200, false)
     or num_nonnulls(g.delay, g.ttl, g.period) > 0 and not (coalesce(g.delay, 0) between 0 and 3153600000
          and coalesce(g.ttl, 0) between 0 and 3153600000 and coalesce(g.period, 0) between 0 and 3153600000)
     or jsonb_typeof(g.options) <> 'object'
     or g.headers is not null and (jsonb_typeof(g.headers) <> 'object' or g.headers @? '$.* ? (@.type() != "string")')
  limit 1;
  if found then
    raise exception using errcode = 'invalid_parameter_value',
      message = format('a job of task %L in queue %L has a name, duration, input, header or option that cannot be stored',
        left(bad.task, 220), left(bad.queue, 220)),
      hint = 'Make jobs with enqueue or enqueue_many, which say what is wrong.';
  end if;
end $$;

-- Insert jobs that have no unique key, or one that is free. Return the new ids.
create or replace function {schema}.insert_jobs(
  given {schema}.new_job[], place bigint, _channel text, moment timestamptz)
returns setof uuid language sql volatile as $$
  {part insert_jobs given}
  select id from made, (select count(*) from notified) sent
$$;

-- The rows that a producer may insert: plain jobs, ready from now on. It has no rights to the table.
-- * Only the first seven columns are granted (8_roles.sql), so the others keep their defaults: nobody inserts a job that
--   runs, belongs to a worker, or was made at another moment (G16).
-- * The condition refuses rows that enqueue_jobs would refuse, too (check_jobs). Names that are not ASCII take that way.
-- * An INSERT here is an INSERT into the table: no function is called, and a prepared one keeps its plan.
create or replace view {schema}.new_jobs as
select id, max_attempts, priority, queue, task, step, input, state, run_at, created_at from {schema}.job
where {part ascii_name queue} and octet_length(queue) <= 200
  and {part ascii_name task} and octet_length(task) <= 200
  and (step = '' or {part ascii_name step} and octet_length(step) <= 200)
  and strpos(task || step, '/') = 0
  and jsonb_typeof(input) = 'object'
  and (getdatabaseencoding() = 'UTF8' or convert_to(input::text, 'UTF8') is not null)
with cascaded check option;
alter view {schema}.new_jobs alter column state set default 'r';
alter view {schema}.new_jobs alter column run_at set default now();
alter view {schema}.new_jobs alter column created_at set default now();
comment on view {schema}.new_jobs is
  'Private: the Python library inserts plain jobs here. Use enqueue, enqueue_many or inbox.';
comment on column {schema}.new_jobs.id is 'The id that the library has drawn. A repetition makes no second job.';
comment on column {schema}.new_jobs.priority is 'Higher runs first within a queue.';
comment on column {schema}.new_jobs.step is 'The first step of a flow; empty for a task of one function.';
comment on column {schema}.new_jobs.input is 'The arguments by name.';
comment on column {schema}.new_jobs.state is 'Always ready.';
comment on column {schema}.new_jobs.run_at is 'The moment of the transaction.';

-- Give a waiting job the input and the moment of another. Return false if it does not wait (any more).
create or replace function {schema}.replace_job(old_id uuid, given {schema}.new_job, _channel text, moment timestamptz)
returns boolean language sql volatile as $$
  with old as (
    select id, key as old_key, holds as held, state as old_state from {schema}.job
    where id = old_id and state in ('r', 's', 'b') and claim = 0
    for update
  ),
  due as (
    select old.*, coalesce(moment, now()) as since,
           coalesce(given.at, coalesce(moment, now()) + make_interval(secs => coalesce(given.delay, 0))) as due,
           given.key is not distinct from old_key as same_key
    from old
  ),
  changed as (
    update {schema}.job j
    set input = given.input, options = given.options, headers = given.headers, carried = given.carried,
        step = coalesce(given.step, ''), priority = coalesce(given.priority, 0::smallint), queue = given.queue,
        max_attempts = given.max_attempts,
        key = given.key, key_limit = case when given.key is not null then coalesce(given.key_limit, 1::smallint) end,
        ordered = given.key is not null and coalesce(given.ordered, false),
        run_at = d.due, expires_at = d.since + make_interval(secs => given.ttl),
        holds = d.held and d.same_key and d.due <= d.since,
        state = case when d.due > d.since then 's'::"char"
                     when given.key is not null and not (d.held and d.same_key) then 'b'::"char" else 'r'::"char" end,
        -- It keeps its place if it stays in its line or lane.
        seq = case when j.queue = given.queue and j.priority = coalesce(given.priority, 0) and d.same_key
                        and d.due <= d.since and d.old_state <> 's'
                   then j.seq else nextval('{schema}.job_seq') end
    from due d where j.id = d.id
    returning j.queue, j.priority, j.state, d.held and not j.holds as freed
  ),
  notified as (
    {part notify_woken changed}
    union all
    -- The job has another key now, so the key with room cannot be found by it: the leader scans all lines.
    select pg_notify(_channel, 'room') from changed where freed and _channel is not null
  )
  select exists (select 1 from changed) from (select count(*) from notified) sent
$$;

-- Make jobs. Return those that were not made because another job, `id`, has their unique key.
-- * Keys are taken in one order, so that no two callers wait for each other in a circle.
-- * The second caller of a key waits until the first one's transaction ends. If that was rolled back, the key is free.
-- * Places in a lane or line follow the order of the call all the same.
-- * The text of the plain insert stands here, because plpgsql keeps its plan. A call of insert_jobs is planned each time.
create or replace function {schema}.enqueue_jobs(jobs jsonb, channel text, moment timestamptz)
returns table (asked uuid, id uuid) language plpgsql volatile as $$
#variable_conflict use_column
declare
  given {schema}.new_job[];
  call record;
  one {schema}.new_job;
  holder uuid;
  place bigint;                                 -- null: each job draws its own
  _channel text := channel;
  counted bigint;
begin
  if moment is not null and not has_table_privilege(session_user, '{schema}.job', 'insert') then
    raise exception 'role % may not choose the moment of a job''s making', session_user
      using errcode = 'insufficient_privilege';
  end if;
  perform {schema}.check_readable(jobs);
  select array_agg(g) into given from jsonb_populate_recordset(null::{schema}.new_job, jobs) g;
  perform {schema}.check_jobs(given);
  if not exists (select 1 from unnest(given) g where g.unique_key is not null) then
    {part insert_jobs given}
    select count(*) into counted from made, (select count(*) from notified) sent;
    return;
  end if;
  perform {schema}.insert_jobs(array(select g from unnest(given) g where g.unique_key is null), null, channel, moment);
  for call in
    select g as job, given.place
    from (select document, nextval('{schema}.job_seq') as place from jsonb_array_elements(jobs) as e(document)
          where document ->> 'unique_key' is not null) given
    cross join lateral jsonb_populate_record(null::{schema}.new_job, given.document) g
    order by g.task, g.unique_key, given.place
  loop
    one := call.job;
    loop
      if one.period is not null then
        insert into {schema}.unique_period as p (task, key, job_id, until)
        values (one.task, one.unique_key, one.id, coalesce(moment, now()) + make_interval(secs => one.period))
        on conflict (task, key) do update set job_id = excluded.job_id, until = excluded.until
        where p.until <= coalesce(moment, now())
        returning p.job_id into holder;
        if holder is null then
          select p.job_id into holder from {schema}.unique_period p
          where p.task = one.task and p.key = one.unique_key;
          continue when holder is null;         -- it expired and was deleted just now
        end if;
        if holder = one.id then
          perform {schema}.insert_jobs(array[one], call.place, channel, moment);
          exit;
        end if;
      else
        exit when exists (select 1 from {schema}.insert_jobs(array[one], call.place, channel, moment));
        exit when exists (select 1 from {schema}.job j where j.id = one.id);          -- a repetition
        select j.id into holder from {schema}.job j
        where j.task = one.task and j.unique_key = one.unique_key and (not j.until_claimed or j.claim = 0);
        continue when holder is null;           -- it was freed just now
      end if;
      if one.on_taken = 'replace' and not {schema}.replace_job(holder, one, channel, moment) then
        -- It was claimed or ended just now, and the key is free. Or it keeps its key after its claim: then it cannot be
        -- replaced.
        continue when not exists (
          select 1 from {schema}.job j where j.id = holder and j.claim > 0 and not j.until_claimed);
        one.on_taken := 'reject';
      end if;
      if one.on_taken = 'reject' then
        raise exception 'unique key % of task % is taken by job %', one.unique_key, one.task, holder
          using errcode = 'HW001', detail = holder::text;
      end if;
      asked := one.id;
      id := holder;
      return next;
      exit;
    end loop;
  end loop;
end $$;

-- Delete new jobs that had already ended under the same id (moves/withdraw.sql).
create or replace function {schema}.withdraw_jobs(ids jsonb) returns setof uuid language sql volatile as $$
  delete from {schema}.job j
  using jsonb_array_elements_text(ids) as g(id)
  where j.id = g.id::uuid and j.claim = 0 and j.state in ('r', 's', 'b')
    and (exists (select 1 from {schema}.archive a where a.id = j.id)
         or exists (select 1 from {schema}.unkept u where u.id = j.id))
  returning j.id
$$;

-- Make the jobs that a task declared for its failures. Their headers name the failed job.
-- * dead_letter: the same work as a new job in that queue; once, so not from that queue again.
-- * on_failure: a call of another task with the failure; not for a call that was itself made so, because two tasks that
--   name each other would never stop.
create or replace function {schema}.after_failure(
  job_id uuid, task text, step text, queue text, attempt smallint, input jsonb, options jsonb, headers jsonb,
  carried jsonb, error jsonb, dead_letter text, on_failure text, channel text, moment timestamptz) returns void
language plpgsql volatile as $$
#variable_conflict use_variable
declare
  known {schema}.task;
begin
  if dead_letter is not null and dead_letter <> queue then
    select * into known from {schema}.task t
    where t.name = {part handler};
    perform {schema}.enqueue_jobs(jsonb_build_array(jsonb_build_object(
      'id', {schema}.new_id(), 'queue', dead_letter, 'task', task, 'step', step, 'input', input,
      'options', options, 'carried', carried,
      'priority', coalesce(known.priority, 0), 'max_attempts', coalesce(known.max_attempts, 1),
      'headers', coalesce(headers, '{}') || jsonb_build_object('dead-letter-of', job_id))), channel, moment);
  end if;
  if on_failure is not null and not coalesce(headers ? 'failure-of', false) then
    select * into known from {schema}.task t where t.name = on_failure;
    perform {schema}.enqueue_jobs(jsonb_build_array(jsonb_build_object(
      'id', {schema}.new_id(), 'queue', coalesce(known.queue, 'default'), 'task', on_failure,
      'step', coalesce(known.first_step, ''),
      'priority', coalesce(known.priority, 0), 'max_attempts', coalesce(known.max_attempts, 20),
      'headers', jsonb_build_object('failure-of', job_id),
      'input', jsonb_build_object('failure', jsonb_build_object(
        'job_id', job_id, 'task', task, 'step', step, 'queue', queue, 'attempt', attempt,
        'failed_at', to_char(coalesce(moment, now()) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.USZ'),
        'error', error, 'input', input, 'headers', coalesce(headers, '{}'))))), channel, moment);
  end if;
end $$;
