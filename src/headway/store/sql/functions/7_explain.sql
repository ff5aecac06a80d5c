-- Explains in words why a job does not run: one reason to a line, the most certain first.

-- Return a duration for people, in at most two units, as core/duration.py does.
create or replace function {schema}.in_words(seconds double precision) returns text
language sql immutable parallel safe as $$
  select case
    when seconds < 1 then round((seconds * 1000)::numeric) || 'ms'
    when seconds < 10 and seconds <> trunc(seconds) then round(seconds::numeric, 1) || 's'
    else (select string_agg(part, ' ' order by place) from (
      select part, place from (values
        (1, whole / 86400, 'd'), (2, whole % 86400 / 3600, 'h'), (3, whole % 3600 / 60, 'm'), (4, whole % 60, 's')
      ) units(place, number, unit), lateral (select number || unit as part) words
      where number > 0 order by place limit 2) two) end
  from (select round(seconds::numeric)::bigint as whole) rounded
$$;

create or replace function {schema}.explain_ended(past {schema}.archive) returns setof text
language sql volatile as $$
  select case past.state
    when 'd' then format('it succeeded %s', ended)
    when 'f' then format('it failed %s, at attempt %s of %s%s: %s: %s%s', ended, past.attempt, past.max_attempts,
      case when past.step <> '' then ' of step ' || past.step else '' end,
      coalesce(past.error ->> 'type', 'no error'), left(split_part(past.error ->> 'message', chr(10), 1), 200), again)
    when 'c' then format('it was cancelled %s%s', ended, again)
    else format('it expired %s: its time to live passed while it waited%s', ended, again) end
  from (select {schema}.in_words(extract(epoch from clock_timestamp() - past.finished_at)) || ' ago' as ended,
               format('; `headway job retry %s` runs it again', past.id) as again) words
$$;

create or replace function {schema}.explain_running(job {schema}.job) returns setof text
language plpgsql volatile as $$
declare
  owner {schema}.worker;
  held record;
begin
  select * into owner from {schema}.worker w where w.id = job.worker_id;
  return next format('it has run for %s on worker %s%s, attempt %s of %s',
    {schema}.in_words(extract(epoch from clock_timestamp() - job.claimed_at)), job.worker_id,
    coalesce(' (' || owner.name || ')', ''), job.attempt, job.max_attempts);
  -- The server does not know which handler has which connection: they have the name of their worker.
  for held in
    select w.pid as waiter, b.pid, b.application_name, b.state, b.query, clock_timestamp() - b.state_change as since
    from pg_stat_activity w cross join lateral unnest(pg_blocking_pids(w.pid)) as blocking(pid)
    left join pg_stat_activity b on b.pid = blocking.pid
    where w.application_name = left('headway handlers of worker ' || job.worker_id || ' in {plain}', 63)
  loop
    return next format('a transaction of its worker (pid %s) waits for pid %s (%s): commit or roll that one back', held.waiter,
      coalesce(held.pid::text, 'of a prepared transaction'),
      concat_ws(', ', nullif(held.application_name, ''), held.state || ' for ' || {schema}.in_words(extract(epoch from held.since)),
        '`' || left(regexp_replace(held.query, E'\\s+', ' ', 'g'), 200) || '`'));
  end loop;
  if {schema}.asked_to_stop(job.id) then
    return next 'it was asked to stop';
  end if;
  if owner.id is null or owner.expires_at <= clock_timestamp() then
    return next format('worker %s was lost; another worker takes the job back as soon as one is alive', job.worker_id);
  end if;
end $$;

create or replace function {schema}.explain_scheduled(job {schema}.job, alive boolean) returns setof text
language plpgsql volatile as $$
begin
  if job.run_at > clock_timestamp() then
    return next format('it is due in %s%s', {schema}.in_words(extract(epoch from job.run_at - clock_timestamp())),
      case when job.attempt > 0 then format(' (attempt %s of %s failed)', job.attempt, job.max_attempts) else '' end);
  elsif alive then
    return next 'it is due, and a worker is about to make it ready';
  else
    return next 'it is due, but no worker is alive; start one: headway worker module:hw';
  end if;
end $$;

-- Return the controls that keep a job from running now: pauses of its queue, task or key, and limits without room.
create or replace function {schema}.controls_of(job {schema}.job) returns table (reason text)
language plpgsql volatile as $$
declare
  handler text := {part handler job};
  control {schema}.control;
  about text;
  running bigint;
  token_in double precision;
begin
  for control in
    select * from {schema}.control c
    where c.kind = 'queue' and c.name = job.queue or c.kind = 'task' and c.name in (handler, job.task)
       or c.kind = 'key' and c.name = job.key
    order by c.kind
  loop
    about := control.kind || ' ' || control.name;
    if {schema}.paused(control.kind, control.name, clock_timestamp()) then
      reason := format('%s is paused by %s%s; `headway queue resume %s` opens it%s', about,
        coalesce(control.paused_by, 'someone'), coalesce(': ' || control.pause_reason, ''),
        case control.kind when 'queue' then control.name else format('--%s %s', control.kind, control.name) end,
        coalesce(', else it opens in ' || {schema}.in_words(extract(epoch from control.paused_until - clock_timestamp())), ''));
      return next;
    end if;
    if control.concurrency is not null and control.kind <> 'key' then
      select count(*) into running from {schema}.job j where j.worker_id is not null
        and case control.kind when 'queue' then j.queue = control.name
            else j.task = job.task and j.step = job.step end;
      if running >= control.concurrency then
        reason := format('%s has %s of %s running', about, running, control.concurrency);
        return next;
      end if;
    end if;
    select extract(epoch from b.spent_until - clock_timestamp()) - (control.burst - 1) / control.rate into token_in
    from {schema}.bucket b where b.key = {schema}.bucket_of(control.kind, control.name) and b.rated_in = control.rated_in;
    if token_in > 0 then
      reason := format('%s may start the next in %s', about, {schema}.in_words(token_in));
      return next;
    end if;
  end loop;
end $$;

create or replace function {schema}.explain_blocked(job {schema}.job, alive boolean) returns setof text
language plpgsql volatile as $$
declare
  held integer;
  holders text;
  before bigint;
  ready integer;
  each {schema}.control;
  most integer;
  next_in double precision;
  token_in double precision;  -- as next_in, also while all slots of the key are taken
  _now timestamptz := clock_timestamp();
begin
  return query select reason from {schema}.controls_of(job);
  if {schema}.paused('key', job.key, clock_timestamp())
     or not job.ordered and {schema}.shut(job.queue, job.task, job.step, clock_timestamp()) then
    return;
  end if;
  select count(*), count(*) filter (where h.state = 'r'),
         string_agg(format('job %s (%s)', h.id, {schema}.label(h.state)), ', ' order by h.id) filter (where h.place <= 3)
  into held, ready, holders
  from (select o.*, row_number() over (order by o.id) as place from {schema}.job o where o.key = job.key and o.holds) h;
  if held > 3 then
    holders := holders || format(' and %s more', held - 3);
  end if;
  select count(*) into before from (
    select 1 from {schema}.job b where b.state = 'b' and b.key = job.key
      and ({part line_rank b}, b.seq)
        < ({part line_rank job}, job.seq)
    limit 1001) ahead;
  if job.key_limit = 0 then
    select * into each from {schema}.control c where c.kind = 'keys' and c.name = {part handler job};
  end if;
  select rule.most, rule.next_in, {part next_token_in h.ready} into most, next_in, token_in
  from (select job.key_limit) f cross join (select each.*) c cross join (select held, ready) h
  cross join (
    -- Starts that are not in the bucket yet take their tokens, too.
    select greatest(max(b.spent_until), _now) + make_interval(secs => coalesce(sum(s.starts), 0) / each.rate) as spent_until
    from (select sum(n.count) as starts from {schema}.start n where n.key = job.key and n.rated_in = each.rated_in) s
    left join {schema}.bucket b on b.key = job.key and b.rated_in = each.rated_in) spent
  cross join lateral (
    {part key_room}) rule;
  if held > 0 then
    return next format('key %s has %s in use, by %s', job.key, held || case when job.key_limit > 0 or each.concurrency is not null then ' of ' || most else '' end, holders);
  end if;
  if token_in > 0 and (before > 0 or held >= most) then
    return next format('key %s may start the next in %s', job.key, {schema}.in_words(token_in));
  end if;
  return next case when before > 1000 then 'over 1000 others are before it in line'
    when before > 0 then format('it is number %s in line', before + 1)
    when held >= most then 'it is the next in line'
    when next_in is null then format('it is the next in line, after %s of key %s that are ready and have not started',
      ready, job.key)
    when job.key_limit = 0 and each.name is null and alive and not exists (
        select 1 from {schema}.task t where t.name = {part handler job})
      then format('it waits for the limits of its task, which no worker has declared yet; deploy an app that defines it, or set them '
        || 'with headway.set_limit(keys_of => %L)', job.task)
    when next_in > 0 then format('it is the next in line, and key %s may start one in %s', job.key, {schema}.in_words(next_in))
    when alive then format('key %s has room for it, and a worker is about to admit it', job.key)
    else format('key %s has room for it, but no worker is alive; start one: headway worker module:hw', job.key) end;
end $$;

create or replace function {schema}.explain_ready(job {schema}.job) returns setof text
language plpgsql volatile as $$
declare
  handler text := {part handler job};
  named text := case job.step when '' then 'task ' || job.task else format('step %s of %s', job.step, job.task) end;
  fleet record;
  control record;
  stopped boolean := false;
  before bigint;
begin
  for control in select * from {schema}.controls_of(job) loop
    return next control.reason;
    stopped := true;
  end loop;
  -- A consumer in SQL that names no tasks can run them all.
  select count(*) as alive, count(*) filter (where serves) as serving, count(*) filter (where knows) as knowing,
         count(*) filter (where serves and knows) as able into fleet
  from (select w.queues ?| array[job.queue, '*'] as serves, w.tasks ? handler or (w.version = 'sql' and w.tasks = '[]') as knows
        from {schema}.worker w where w.expires_at > clock_timestamp()) w;
  if fleet.alive = 0 then
    return next 'no worker is alive; start one: headway worker module:hw';
    return;
  end if;
  if fleet.serving = 0 then
    return next format('no live worker serves queue %s; start one with -q %s', job.queue, job.queue);
  end if;
  if fleet.knowing = 0 then
    return next format('no live worker knows %s; deploy an app that defines it', named);
  end if;
  if fleet.able = 0 and fleet.serving > 0 and fleet.knowing > 0 then
    return next format('no live worker that knows %s serves queue %s', named, job.queue);
  end if;
  if fleet.able > 0 and not stopped then
    select count(*) into before from (
      select 1 from {schema}.job b where b.state = 'r' and b.queue = job.queue
        and (b.priority > job.priority or (b.priority = job.priority and b.seq < job.seq))
      limit 1001) ahead;
    return next 'it waits for a free slot of a worker, ' || case before
      when 0 then 'next in its queue' when 1 then 'after 1 other of its queue'
      when 1001 then 'after over 1000 others of its queue' else format('after %s others of its queue', before) end;
  end if;
end $$;

create or replace function {schema}.explain_waiting(job {schema}.job) returns setof text
language plpgsql volatile as $$
declare
  awaited record;
begin
  select cardinality(f.members) as size, f.all_but, live.count, live.some into awaited
  from {schema}.fan_in f
  cross join lateral (
    select count(*) as count,
           string_agg(format('job %s (%s)', m.id, {schema}.label(m.state)), ', ' order by m.id) filter (where m.place <= 3) as some
    from (select j.id, j.state, row_number() over (order by j.id) as place from {schema}.job j where j.id = any (f.members)) m) live
  where f.job_id = job.id and f.gathered_at is null;
  if not found then
    return next 'it waits for an event';
  elsif awaited.count > awaited.all_but then
    return next format('it waits for its group: %s of %s jobs have ended, and %s; %s', awaited.size - awaited.count,
      awaited.size, case when awaited.all_but = 0 then 'all have to' else awaited.size - awaited.all_but || ' have to' end,
      'these have not: ' || awaited.some || case when awaited.count > 3 then format(' and %s more', awaited.count - 3) else '' end);
  else
    return next 'its group has ended, and the leader is about to make it ready';
  end if;
end $$;

create or replace function {schema}.reasons(job_id uuid) returns setof text
language plpgsql volatile as $$
declare
  job {schema}.job;
  past {schema}.archive;
  alive boolean := exists (select 1 from {schema}.worker w where w.expires_at > clock_timestamp());
begin
  select * into job from {schema}.job j where j.id = job_id;
  if job.id is null then
    select * into past from {schema}.archive a where a.id = job_id;
    if past.id is not null then
      return query select {schema}.explain_ended(past);
    else
      return next format('there is no job %s: it was never made, was not kept, or its time in the archive is over', job_id);
    end if;
    return;
  end if;
  if job.state <> 'x' and job.expires_at <= clock_timestamp() then
    return next format('its time to live passed %s ago, and it is about to end as expired',
      {schema}.in_words(extract(epoch from clock_timestamp() - job.expires_at)));
  end if;
  case job.state
    when 'x' then return query select {schema}.explain_running(job);
    when 's' then return query select {schema}.explain_scheduled(job, alive);
    when 'b' then return query select {schema}.explain_blocked(job, alive);
    when 'r' then return query select {schema}.explain_ready(job);
    else return query select {schema}.explain_waiting(job);
  end case;
end $$;

create or replace function {schema}.explain(id uuid) returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select string_agg(reason, chr(10) order by place)
  from {schema}.reasons(id) with ordinality r(reason, place)
$$;

comment on function {schema}.explain is
  'Returns why this job is not running, or how it ended: one reason to a line, the most certain first.';
