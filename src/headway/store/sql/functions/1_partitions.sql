-- Daily partitions from the day of `moment` on: of attempts by the day on which they ended, of the archive
-- by the day until which a job is kept, for each keeping that there is. Attaching a finished table takes a
-- weaker lock on the parent than creating a partition in place; the lock timeout bounds how long anyone waits.
create or replace function {schema}.add_partitions(moment timestamptz, days integer) returns integer
language plpgsql as $$
declare
  wanted record;
  child text;
  busy text := '';                              -- a parent that someone else is reading
  made integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0)) then
    return 0;                                   -- someone is at it
  end if;
  perform set_config('lock_timeout', '250ms', true);
  for wanted in
    select distinct parent, date_trunc('day', (moment + keep) at time zone 'UTC') + make_interval(days => ahead) as first
    from (select 'attempt', interval '0'
          union select 'archive', interval '168 hours'
          union select 'archive', interval '720 hours'
          union select 'archive', keep_succeeded from {schema}.task where keep_succeeded <= interval '9600 hours'
          union select 'archive', keep_failed from {schema}.task where keep_failed <= interval '9600 hours') k(parent, keep),
         generate_series(0, days) ahead
    order by 1, 2
  loop
    child := wanted.parent || to_char(wanted.first, '_YYYYMMDD');
    continue when wanted.parent = busy or to_regclass(format('{schema}.%I', child)) is not null;
    begin
      execute format('create table {schema}.%I (like {schema}.%I including all)', child, wanted.parent);
      execute format('alter table {schema}.%I attach partition {schema}.%I for values from (%L) to (%L)',
        wanted.parent, child, wanted.first at time zone 'UTC', (wanted.first + interval '1 day') at time zone 'UTC');
      made := made + 1;
    exception
      -- The net holds rows of that day already and goes on catching them.
      when check_violation then
        raise notice 'partition % left for later: %', child, sqlerrm;
      -- A reader is in the way, and would be for this parent's other days too: so that nobody waits
      -- for long, they are all left to the next sweep.
      when lock_not_available then
        raise notice 'partition % left for later: %', child, sqlerrm;
        busy := wanted.parent;
    end;
  end loop;
  return made;
end $$;

-- Drops the daily partitions of which nothing is to be kept any longer: of the archive those whose day has
-- passed, of attempts those older than anything is kept. What fell into the net is deleted row by row.
create or replace function {schema}.drop_partitions(moment timestamptz) returns integer
language plpgsql as $$
declare
  longest interval;
  doomed record;
  busy oid := 0;                                -- a parent that someone else is reading
  dropped integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0)) then
    return 0;
  end if;
  perform set_config('lock_timeout', '250ms', true);
  select greatest(interval '720 hours', max(keep_failed), max(keep_succeeded)) into longest from {schema}.task;
  for doomed in
    select c.oid::regclass as child, p.oid as parent
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_class p on p.oid = i.inhparent
    where p.relnamespace = '{schema}'::regnamespace
      and p.relname in ('archive', 'attempt')
      and c.relname ~ '_[0-9]{8}$'
      and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
          <= case p.relname when 'archive' then moment else moment - longest end
    order by p.oid, c.relname
  loop
    continue when doomed.parent = busy;
    begin
      execute format('drop table %s', doomed.child);
      dropped := dropped + 1;
    exception when lock_not_available then
      raise notice 'partition % left for later: %', doomed.child, sqlerrm;
      busy := doomed.parent;
    end;
  end loop;
  begin
    delete from {schema}.archive_other where kept_until <= moment;
    delete from {schema}.attempt_other where finished_at <= moment - longest;
  exception when lock_not_available then
    raise notice 'rows in the net left for later: %', sqlerrm;
  end;
  return dropped;
end $$;

select {schema}.add_partitions(now(), 3);
