-- Counts the live jobs of a queue by state, and its ended jobs by outcome.
-- * Counts are exact while the table of live jobs is short enough to be counted whole.
-- * Otherwise a bounded number of index entries is read, and the rest comes from the last count of the leader (table
--   census, maintenance/job_counts.py). So the cost does not grow with the jobs that wait.

create or replace function {schema}.count_live(wanted text)
returns table (queue text, ready bigint, scheduled bigint, blocked bigint, running bigint, waiting bigint,
               oldest_ready_at timestamptz, newest_ready_at timestamptz)
language sql stable as $$
  select j.queue,
         count(*) filter (where j.state = 'r'), count(*) filter (where j.state = 's'),
         count(*) filter (where j.state = 'b'), count(*) filter (where j.state = 'x'),
         count(*) filter (where j.state = 'w'),
         min(j.run_at) filter (where j.state = 'r'), max(j.run_at) filter (where j.state = 'r')
  from {schema}.job j
  where wanted is null or j.queue = wanted
  group by j.queue
$$;

-- Count the same in a long table.
-- * It reads at most `most` rows of each index (the queues share those of ready jobs), newest first: under an old snapshot
--   the dead rows are the oldest.
-- * Running jobs are at most as many as the fleet has slots, so they are all counted.
-- * If an index has more rows than were read, the census has the number. Without a census the number read is returned.
-- * The oldest and the newest are the first and the last of each lane.
create or replace function {schema}.estimate_live(wanted text, most integer)
returns table (queue text, ready bigint, scheduled bigint, blocked bigint, running bigint, waiting bigint,
               oldest_ready_at timestamptz, newest_ready_at timestamptz, estimated boolean, as_of timestamptz)
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with recursive hop(queue) as (
    select case when wanted is null then (select min(j.queue) from {schema}.job j where j.state = 'r') else wanted end
    union all
    select (select min(j.queue) from {schema}.job j where j.state = 'r' and j.queue > hop.queue)
    from hop where hop.queue is not null and wanted is null
  ),
  lane(queue, priority) as (
    select h.queue, (select max(j.priority) from {schema}.job j where j.state = 'r' and j.queue = h.queue)
    from hop h where h.queue is not null
    union all
    select l.queue, (select max(j.priority) from {schema}.job j
                     where j.state = 'r' and j.queue = l.queue and j.priority < l.priority)
    from lane l where l.priority is not null
  ),
  ends as (
    select l.queue, min(o.run_at) as oldest, max(n.run_at) as newest
    from lane l
    cross join lateral (select j.run_at from {schema}.job j
                        where j.state = 'r' and j.queue = l.queue and j.priority = l.priority
                        order by j.seq limit 1) o
    cross join lateral (select j.run_at from {schema}.job j
                        where j.state = 'r' and j.queue = l.queue and j.priority = l.priority
                        order by j.seq desc limit 1) n
    where l.priority is not null
    group by l.queue
  ),
  share as (
    select greatest(1, most / greatest(1, count(h.queue))) as most from hop h
  ),
  ready as (
    select h.queue, count(*) as found, count(*) > s.most as over
    from share s cross join hop h
    cross join lateral (select 1 from {schema}.job j where j.state = 'r' and j.queue = h.queue
                        order by j.priority desc, j.seq desc limit s.most + 1) some_of_them
    group by h.queue, s.most
  ),
  later as materialized (
    select j.queue from {schema}.job j where j.state = 's' order by j.run_at desc limit most + 1
  ),
  scheduled as (
    select l.queue, count(*) as found from later l group by l.queue
  ),
  line as materialized (
    select j.queue from {schema}.job j where case when j.state = 'b' then true end order by j.seq desc limit most + 1
  ),
  blocked as (
    select l.queue, count(*) as found from line l group by l.queue
  ),
  running as (
    select j.queue, count(*) as found from {schema}.job j where j.worker_id is not null group by j.queue
  ),
  counted as (
    select c.queue, max(c.taken_at) as taken_at,
           sum(c.count) filter (where c.state = 'r') as ready, sum(c.count) filter (where c.state = 's') as scheduled,
           sum(c.count) filter (where c.state = 'b') as blocked, sum(c.count) filter (where c.state = 'w') as waiting
    from {schema}.census c group by c.queue
  ),
  known as (
    select h.queue from hop h where h.queue is not null
    union select s.queue from scheduled s union select b.queue from blocked b
    union select r.queue from running r union select c.queue from counted c
  ),
  found as (
    select k.queue, e.oldest, e.newest, c.taken_at,
           coalesce(r.found, 0) as ready, coalesce(r.over, false) as ready_over, coalesce(c.ready, 0) as ready_then,
           coalesce(s.found, 0) as scheduled, coalesce(c.scheduled, 0) as scheduled_then,
           (select count(*) > most from later) and coalesce(s.found, c.scheduled, 0) > 0 as scheduled_over,
           coalesce(b.found, 0) as blocked, coalesce(c.blocked, 0) as blocked_then,
           (select count(*) > most from line) and coalesce(b.found, c.blocked, 0) > 0 as blocked_over,
           coalesce(x.found, 0) as running, coalesce(c.waiting, 0) as waiting
    from known k
    left join ready r on r.queue = k.queue
    left join scheduled s on s.queue = k.queue
    left join blocked b on b.queue = k.queue
    left join running x on x.queue = k.queue
    left join counted c on c.queue = k.queue
    left join ends e on e.queue = k.queue
    where wanted is null or k.queue = wanted
  )
  select f.queue,
         (case when f.ready_over then greatest(f.ready, f.ready_then) else f.ready end)::bigint,
         (case when f.scheduled_over then greatest(f.scheduled, f.scheduled_then) else f.scheduled end)::bigint,
         (case when f.blocked_over then greatest(f.blocked, f.blocked_then) else f.blocked end)::bigint,
         f.running, f.waiting::bigint, f.oldest, f.newest,
         f.ready_over or f.scheduled_over or f.blocked_over or f.waiting > 0,
         case when f.ready_over or f.scheduled_over or f.blocked_over or f.waiting > 0 then f.taken_at end
  from found f
$$;

-- Return the counts of live jobs of a queue, or of every queue that has some.
create or replace function {schema}.live_jobs(
  wanted text default null, moment timestamptz default null, most_pages integer default 8192,
  most_rows integer default 10000)
returns table (queue text, ready bigint, scheduled bigint, blocked bigint, running bigint, waiting bigint,
               oldest_ready_at timestamptz, newest_ready_at timestamptz, estimated boolean, as_of timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- The size, not the number of rows: dead rows have to be walked, too.
  if pg_relation_size('{schema}.job') <= most_pages * current_setting('block_size')::bigint then
    return query select c.*, false, coalesce(moment, now()) from {schema}.count_live(wanted) c;
  else
    return query
      select e.queue, e.ready, e.scheduled, e.blocked, e.running, e.waiting, e.oldest_ready_at, e.newest_ready_at,
             e.estimated, coalesce(e.as_of, coalesce(moment, now()))
      from {schema}.estimate_live(wanted, most_rows) e
      -- The census may have a queue that is empty by now.
      where e.ready + e.scheduled + e.blocked + e.running + e.waiting > 0;
  end if;
end $$;

-- Return the counts of live and ended jobs of a queue, or of every queue that has or had some, or that has a control.
create or replace function {schema}.measure(wanted text, moment timestamptz)
returns table (queue text, ready bigint, scheduled bigint, blocked bigint, running bigint, waiting bigint,
               oldest_ready_at timestamptz, newest_ready_at timestamptz, succeeded bigint, failed bigint,
               cancelled bigint, expired bigint, estimated boolean, as_of timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  with ended as (
    select e.queue, sum(e.count) filter (where e.outcome = 'd') as succeeded,
           sum(e.count) filter (where e.outcome = 'f') as failed,
           sum(e.count) filter (where e.outcome = 'c') as cancelled,
           sum(e.count) filter (where e.outcome = 'e') as expired
    from (select t.queue, t.outcome, t.count from {schema}.total t where wanted is null or t.queue = wanted
          union all
          select t.queue, t.outcome, t.count from {schema}.tally t where wanted is null or t.queue = wanted) e
    group by e.queue
  ),
  live as (
    select * from {schema}.live_jobs(wanted, moment)
  ),
  named as (
    select l.queue from live l
    union select e.queue from ended e
    union select c.name from {schema}.control c where c.kind = 'queue' and wanted is null
    union select wanted where wanted is not null
  )
  select n.queue, coalesce(l.ready, 0), coalesce(l.scheduled, 0), coalesce(l.blocked, 0), coalesce(l.running, 0),
         coalesce(l.waiting, 0), l.oldest_ready_at, l.newest_ready_at,
         coalesce(e.succeeded, 0)::bigint, coalesce(e.failed, 0)::bigint, coalesce(e.cancelled, 0)::bigint,
         coalesce(e.expired, 0)::bigint, coalesce(l.estimated, false), coalesce(l.as_of, coalesce(moment, now()))
  from named n left join live l on l.queue = n.queue left join ended e on e.queue = n.queue
  order by n.queue
$$;

create or replace function {schema}.metrics(of_queue text default null)
returns table (queue text, ready bigint, scheduled bigint, blocked bigint, running bigint, waiting bigint,
               oldest_ready_age interval, newest_ready_age interval, succeeded bigint, failed bigint,
               cancelled bigint, expired bigint, estimated boolean, as_of timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select m.queue, m.ready, m.scheduled, m.blocked, m.running, m.waiting,
         clock_timestamp() - m.oldest_ready_at, clock_timestamp() - m.newest_ready_at,
         m.succeeded, m.failed, m.cancelled, m.expired, m.estimated, m.as_of
  from {schema}.measure(of_queue, clock_timestamp()) m
$$;

comment on function {schema}.metrics is
  'Returns the counts of a queue, or of every queue: live jobs by state, the ages of the oldest and newest ready job, '
  'and ended jobs by outcome. If very many jobs wait, counts are estimates, as of a moment.';
