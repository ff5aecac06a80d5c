-- Makes, empties and drops partitions of `archive` (by the end of a job's keeping) and of `attempt` (by its end).
-- A partition covers a day, a month or a year (grain 0, 1, 2); the number of its digits tells which:
-- archive_20400108, archive_204001, archive_2040. The grain follows from how long a job is kept, so that a keeping
-- of any length has at most about a hundred partitions.
--   up to 93 days      days
--   up to 1100 days    months
--   up to 36000 days   years
--   longer             no partition of its own: archive_rest
-- The partition key of `archive` has the same limits.

-- Return how long the records of attempts are kept: as long as any job.
create or replace function {schema}.longest_keep() returns interval
language sql stable as $$
  select least(greatest({part keep_failed}, max(keep_failed), max(keep_succeeded)), interval '36000 days')
  from {schema}.task
$$;

-- Return what the name of a partition ends with.
create or replace function {schema}.partition_suffix(first timestamp, grain integer) returns text
language sql stable as $$
  select to_char(first, (array['_YYYYMMDD', '_YYYYMM', '_YYYY'])[grain + 1])
$$;

-- Move a bounded number of rows from the default partition of `parent` to its `_rest`. Return how many.
-- - A row in use is skipped.
-- - It is an update through the parent: a statement that waits for such a row then fails with a serialization
--   failure and is repeated. After a delete and an insert it would not find the row.
create or replace function {schema}.spill(parent text, most integer) returns integer
language plpgsql as $$
declare
  moved integer;
begin
  execute format(
    'update {schema}.%I set spilled = true where tableoid = %L::regclass and ctid = any (array('
    'select ctid from {schema}.%I limit %s for update skip locked))',
    parent, format('{schema}.%I', parent || '_other'), parent || '_other', most);
  get diagnostics moved = row_count;
  return moved;
end $$;

-- Move rows out of the default partitions in small batches, and delete those in `_rest` whose time is over. Return how
-- many rows. It takes no lock that a settling waits for. A call is bounded; the sweep comes back.
create or replace function {schema}.empty_nets(moment timestamptz) returns integer
language plpgsql as $$
declare
  parent text;
  batch integer;
  moved integer;
  deleted integer;
  total integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0::bigint)) then
    return 0;                                   -- another session is doing it
  end if;
  perform set_config('lock_timeout', '250ms', true);
  foreach parent in array array['archive', 'attempt'] loop
    continue when pg_relation_size(format('{schema}.%I', parent || '_other')) = 0;
    moved := 0;
    begin
      loop
        batch := {schema}.spill(parent, 1000);
        moved := moved + batch;
        exit when batch < 1000 or moved >= 10000;
      end loop;
    exception when lock_not_available then
      raise notice 'rows of %_other are left for the next sweep: %', parent, sqlerrm;
      moved := 0;
    end;
    total := total + moved;
  end loop;
  begin
    delete from {schema}.archive_rest where ctid = any (array(
      select ctid from {schema}.archive_rest where kept_until <= moment
      order by kept_until limit 5000 for update skip locked));
    get diagnostics deleted = row_count;
    total := total + deleted;
    delete from {schema}.attempt_rest where ctid = any (array(
      select ctid from {schema}.attempt_rest where finished_at <= moment - {schema}.longest_keep()
      order by finished_at limit 5000 for update skip locked));
    get diagnostics deleted = row_count;
    total := total + deleted;
  exception when lock_not_available then
    raise notice 'rows that are over are left for the next sweep: %', sqlerrm;
  end;
  return total;
end $$;

-- Make the partitions from the day of `moment` to `days` later, for each keeping that a task declares. Return how many.
-- - At most 32 in a call: each takes several locks until the commit. The sweep comes back.
-- - A table is made first and attached then. Attaching takes a weaker lock on the parent than creating in place.
-- - Attaching locks the default partition exclusively and scans it. So it must be empty: a default partition that
--   holds more than 2000 rows puts the parent off to the next call, after empty_nets(). An empty one is truncated,
--   because dead rows are scanned, too.
-- - The lock timeout bounds how long a settling waits behind this function.
create or replace function {schema}.add_partitions(moment timestamptz, days integer) returns integer
language plpgsql as $$
declare
  most constant integer := 32;
  target text;
  wanted record;
  size integer;
  child text;
  first timestamp;
  ready text[];                                 -- commands that attach
  command text;
  filled boolean;
  made integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0::bigint)) then
    return 0;                                   -- another session is doing it
  end if;
  perform set_config('lock_timeout', '250ms', true);
  foreach target in array array['archive', 'attempt'] loop
    execute format('select count(*) > 2000 from (select 1 from {schema}.%I limit 2001) held', target || '_other')
      into filled;
    if filled then
      raise notice 'partitions of % are left for the next sweep: its default partition is full', target;
      continue;
    end if;
    begin
      ready := '{}';
      for wanted in
        select distinct grain, date_trunc((array['day', 'month', 'year'])[grain + 1], ending at time zone 'UTC') as first,
               date_trunc('day', ending at time zone 'UTC') as day
        from (select keep, case when moment + keep - moment <= interval '93 days' then 0
                                when moment + keep - moment <= interval '1100 days' then 1 else 2 end as grain
              from (select {part keep_succeeded} union select {part keep_failed}
                    union select keep_succeeded from {schema}.task union select keep_failed from {schema}.task) k(keep)
              where target = 'archive' and keep <= interval '36000 days'
              union all
              select {schema}.longest_keep(), case when {schema}.longest_keep() <= interval '93 days' then 0
                                                   when {schema}.longest_keep() <= interval '1100 days' then 1 else 2 end
              where target = 'attempt') kept,
             generate_series(0, least(days, 31)) ahead,
             lateral (select moment + case target when 'archive' then keep else interval '0' end
                             + make_interval(hours => 24 * ahead) as ending) e
        order by 1, 3
      loop
        exit when made + cardinality(ready) >= most;
        size := wanted.grain;
        first := wanted.first;
        if target = 'attempt' then
          -- The grain changes with the longest keeping. A month that has days already gets the rest of its days.
          continue when to_regclass('{schema}.attempt' || {schema}.partition_suffix(wanted.day, 0)) is not null
            or to_regclass('{schema}.attempt' || {schema}.partition_suffix(wanted.day, 1)) is not null
            or to_regclass('{schema}.attempt' || {schema}.partition_suffix(wanted.day, 2)) is not null;
          while size > 0 and exists (
            select 1 from pg_class where relnamespace = '{schema}'::regnamespace and relkind = 'r'
              and starts_with(relname, 'attempt' || {schema}.partition_suffix(wanted.day, size))) loop
            size := size - 1;
          end loop;
          first := date_trunc((array['day', 'month', 'year'])[size + 1], wanted.day);
        end if;
        child := target || {schema}.partition_suffix(first, size);
        continue when to_regclass(format('{schema}.%I', child)) is not null;
        execute format('create table {schema}.%I (like {schema}.%I including all)', child, target);
        execute format('alter table {schema}.%I replica identity full', child);
        ready := ready || format('alter table {schema}.%I attach partition {schema}.%I for values from (%s, %L) to (%s, %L)',
          target, child, case target when 'archive' then size else 0 end, first at time zone 'UTC',
          case target when 'archive' then size else 0 end,
          (first + (array[interval '1 day', '1 month', '1 year'])[size + 1]) at time zone 'UTC');
      end loop;
      continue when cardinality(ready) = 0;
      execute format('lock table {schema}.%I in access exclusive mode', target || '_other');
      if pg_relation_size(format('{schema}.%I', target || '_other')) > 0 then
        perform {schema}.spill(target, 2000);
        execute format('select exists (select 1 from {schema}.%I)', target || '_other') into filled;
        if filled then
          raise exception using errcode = 'lock_not_available', message = format('%s_other holds rows', target);
        end if;
        execute format('truncate {schema}.%I', target || '_other');
      end if;
      foreach command in array ready loop
        execute command;
      end loop;
      made := made + cardinality(ready);
    exception when lock_not_available then
      -- Someone reads the default partition, or it is not empty. All of this parent is left to the next sweep.
      raise notice 'partitions of % are left for the next sweep: %', target, sqlerrm;
    end;
  end loop;
  return made;
end $$;

-- Drop partitions whose time is over: of the archive when their last moment has passed, of attempts when they are older
-- than any job is kept. Return how many.
-- - At most 16 of each parent in a call, oldest first: each takes several locks until the commit, and the parent is
--   locked exclusively meanwhile. The sweep comes back.
create or replace function {schema}.drop_partitions(moment timestamptz) returns integer
language plpgsql as $$
declare
  doomed record;
  busy oid := 0;                                -- a parent that someone else is reading
  dropped integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('{schema}.partitions', 0::bigint)) then
    return 0;
  end if;
  perform set_config('lock_timeout', '250ms', true);
  for doomed in
    select child, parent
    from (select *, row_number() over (partition by parent order by ends, child) as place
          from (select c.oid::regclass as child, p.oid as parent, p.relname,
                       case length(digits) when 8 then to_date(digits, 'YYYYMMDD') + interval '1 day'
                                           when 6 then to_date(digits, 'YYYYMM') + interval '1 month'
                                           else to_date(digits, 'YYYY') + interval '1 year' end as ends
                from pg_inherits i
                join pg_class c on c.oid = i.inhrelid
                join pg_class p on p.oid = i.inhparent,
                substring(c.relname from '_((?:[0-9]{4}|[0-9]{6}|[0-9]{8}))$') digits
                where p.relnamespace = '{schema}'::regnamespace
                  and p.relname in ('archive', 'attempt') and digits is not null) found
          where ends at time zone 'UTC'
                <= case relname when 'archive' then moment else moment - {schema}.longest_keep() end) due
    where place <= 16
    order by parent, place
  loop
    continue when doomed.parent = busy;
    begin
      execute format('drop table %s', doomed.child);
      dropped := dropped + 1;
    exception when lock_not_available then
      raise notice 'partition % is left for the next sweep: %', doomed.child, sqlerrm;
      busy := doomed.parent;
    end;
  end loop;
  return dropped;
end $$;

select {schema}.add_partitions(now(), 3);
