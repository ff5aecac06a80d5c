-- Sweeps for systems without a Headway worker: promote, admit, rescue, expire. claim() runs them once a second.
-- * Admitting locks a key until the end of the transaction. Here that is the caller's, and it may stay open. So the lock is
--   only tried, never waited for, and only while no worker of the engine is alive, which would have to wait for it.
-- * If a worker is alive, a `room` notification tells it that it may admit others.

-- When claim() last swept, in milliseconds. A sequence, because it is never waited for and never rolled back.
create sequence if not exists {schema}.swept as bigint;

create or replace function {schema}.fleet_lives() returns boolean
language sql volatile as $$
  select exists (select 1 from {schema}.leader where name = 'sweeps' and expires_at > clock_timestamp())
$$;

-- Admit under these keys, except those that another session has locked. Do nothing while a worker of the engine is alive.
create or replace function {schema}.admit_keys(wanted jsonb) returns bigint
language plpgsql volatile as $$
declare
  _keys jsonb;
  _channel text := '{plain}_work';
  _now timestamptz := clock_timestamp();
  answer record;
  admitted bigint := 0;
  ignored bigint;
begin
  if {schema}.fleet_lives() then
    return 0;
  end if;
  -- Counting after the lock needs a newer snapshot than the lock.
  if current_setting('transaction_isolation') <> 'read committed' then
    return 0;
  end if;
  select jsonb_agg(key) into _keys from (
    select distinct key from jsonb_array_elements_text(wanted) k(key) where key is not null) k
  where pg_try_advisory_xact_lock(hashtextextended('{schema}.key ' || key, 0::bigint));  -- as lock_keys.sql
  if _keys is null then
    return 0;
  end if;
  {move unadmit}
  into ignored;
  for answer in
    {move admit}
  loop
    admitted := admitted + answer.count;
  end loop;
  return admitted;
end $$;

create or replace function {schema}.sweep(most integer default 1000)
returns table (rescued bigint, ended bigint, expired bigint, promoted bigint, admitted bigint)
language plpgsql volatile set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  _now timestamptz := clock_timestamp();
  _channel text := '{plain}_work';
  _done text := '{plain}_done';
  _since timestamptz := '-infinity';
  _limit integer := most;
  _key text := '';
  _after uuid := '00000000-0000-0000-0000-000000000000';
  line record;
  lines integer;
  roomy jsonb := '[]';
  _worker bigint;                               -- null: jobs of all workers
  _ids jsonb;
  answer record;
  ignored text;
begin
  rescued := 0;
  ended := 0;
  for answer in
    {move rescue}
  loop
    rescued := rescued + (answer.id is not null and answer.came_to = 'r')::integer;
    ended := ended + (answer.id is not null and answer.came_to <> 'r')::integer;
  end loop;
  {write mark_limited}
  into ignored;
  select coalesce(jsonb_agg(waits.job_id), '[]') into _ids from (
    {read asked}
  ) waits;
  for answer in
    {move cancel}
  loop
    null;
  end loop;
  {move expire}
  into expired, ignored;
  {move promote}
  into promoted, ignored, ignored, ignored;
  select coalesce(jsonb_agg(open.id), '[]') into _ids from (
    {read gatherable}
  ) open(id) where open.id is not null;
  {move gather}
  into ignored, ignored;
  -- Each key with room is one lock until the end of the transaction, so their number is bounded.
  _limit := 500;
  loop
    lines := 0;
    for line in
      {read lines}
    loop
      lines := lines + 1;
      _key := line.key;
      if line.room then
        roomy := roomy || to_jsonb(line.key);
      end if;
    end loop;
    exit when lines < _limit or jsonb_array_length(roomy) >= _limit;
  end loop;
  admitted := {schema}.admit_keys(roomy);
  _limit := 50000;
  {write tally}
  into ignored, ignored, ignored;
  return next;
end $$;

create or replace function {schema}.prune() returns void
language plpgsql volatile set lock_timeout = '250ms' as $$
declare
  _now timestamptz := clock_timestamp();
  ignored bigint;
begin
  -- Workers do all of this in transactions of their own. The caller's may stay open, with its locks (G14).
  if {schema}.fleet_lives() then
    return;
  end if;
  -- It may be called once a day: up to half a million rows must not wait for the next call.
  for turn in 1..50 loop
    exit when {schema}.empty_nets(_now) = 0;
  end loop;
  {write partitions}
  into ignored, ignored, ignored;
  {write clean_up}
  into ignored, ignored, ignored, ignored;
end $$;

comment on function {schema}.sweep is
  'Takes back the jobs of lost workers, ends expired jobs, and makes ready those that are due or have room under their '
  'key: at most `most` of each. For systems without a Headway worker, where claim() also calls it.';
comment on function {schema}.prune is
  'Makes the archive''s next partitions and drops those past retention. Call it once a day in systems without a Headway worker. If one is alive, it does nothing.';
