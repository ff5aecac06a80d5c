-- blocked -> ready, as many of each key as there is room for; only behind lock_keys.sql.
-- Room is what a job's limit leaves after counting those that hold some (I9), so there is no counter to
-- leak or to repair. The first in line decides how many are looked at; each counts by its own limit, and
-- none passes one that must wait. A row that someone else has locked is being changed: it is passed by,
-- but not in an ordered line, where nobody may pass; who takes the first one out of that says so.
-- A limit of 0 is what is said of each key of its handler (`keys` in control), and may have a rate. A token is
-- taken by a start, not here: claims note their starts, and whoever has the key's lock adds them to its
-- bucket. Here each who is ready has a token kept for it, so that no more are ready than may start at once.
-- Of a handler that no worker has declared yet the limits are not known: its jobs wait for one that runs them, and
-- brings the limits along. Where no worker of the engine lives there is nobody to wait for.
-- Keys take turns: who is let in goes to the tail of its lane, in the order in which the keys are given (each once),
-- and that is the one in which their room was freed. Of each at most 32 are ready (as lines.sql and claim.sql have
-- it), so that turns are short however high the limit.
-- What is of a queue or task that is shut is passed by, as able_in_line has it; where nothing is, the first of the
-- line are simply its first.
-- Back comes how many were let in, the first place that they have in each lane (they may be behind a cursor: others
-- drew later places and were claimed before this commits), and for each key when there will be a token for the next
-- one, or an end to a pause that has one. Where as many are ready as may start at once, the next token's moment is
-- that of a start.
with wanted as (
  select key, turn from jsonb_array_elements_text(%(keys)s::jsonb) with ordinality as given(key, turn)
),
shut as materialized (
  select {schema}.anything_shut(coalesce(%(now)s, now())) as anything
),
paused as materialized (
  select name as key, extract(epoch from paused_until - coalesce(%(now)s, now()))::double precision as paused_for
  from {schema}.control
  where kind = 'key' and name in (select key from wanted) and paused_at is not null
    and coalesce(paused_until > coalesce(%(now)s, now()), true)
),
room as materialized (
  select k.key, k.turn, f.at, f.ordered, f.seq as first, c.rate, c.burst, c.rated_in, spent.begun, spent.was_until, spent.spent_until,
         case f.key_limit when 0 then coalesce(c.concurrency, 32000) else f.key_limit end as most, h.held, h.ready
  from wanted k
  left join lateral (
    (select ctid as at, key_limit, ordered, seq, case step when '' then task else task || '/' || step end as handler
     from {schema}.job where state = 'b' and key = k.key and not (select anything from shut)
     order by case when ordered then 0 else -priority end, seq
     limit 1)
    union all
    select j.ctid, j.key_limit, j.ordered, j.seq, case j.step when '' then j.task else j.task || '/' || j.step end
    from shut cross join lateral {schema}.able_in_line(k.key, 1, coalesce(%(now)s, now())) as a(at)
    join {schema}.job j on j.ctid = a.at
    where shut.anything) f on true
  left join {schema}.control c on c.kind = 'keys' and c.name = case
    when f.key_limit = 0 then f.handler
    -- Nobody waits, but some have started.
    when f.key_limit is null then (select handler from {schema}.start where key = k.key limit 1) end
  left join lateral (
    select count(*)::integer as held, (count(*) filter (where state = 'r'))::integer as ready
    from {schema}.job where key = k.key and holds) h on true
  left join lateral (
    -- Each start took a token at its own moment, and those after it theirs. What is of another rate counts for none.
    select s.begun, b.spent_until as was_until,
           greatest(b.spent_until + make_interval(secs => s.starts / c.rate), s.latest) as spent_until
    from (
      select count(*) > 0 as begun, coalesce(sum(count), 0) as starts,
             max(started_at + make_interval(secs => on_from / c.rate)) as latest
      from (
        select count, started_at, sum(count) over (order by started_at desc) as on_from
        from (
          select started_at, case when rated_in = c.rated_in then count else 0 end as count
          from {schema}.start where key = k.key) noted) each) s
    left join {schema}.bucket b on b.key = k.key and b.rated_in = c.rated_in
    where c.rate is not null) spent on true
  where (f.seq is not null or c.rate is not null) and k.key not in (select key from paused)
    and (f.key_limit is distinct from 0 or c.name is not null
         or exists (select 1 from {schema}.task t where t.name = f.handler)
         or not exists (select 1 from {schema}.duty d where d.expires_at > coalesce(%(now)s, now())))
),
wide as materialized (
  select r.*, greatest(0, least(r.most - r.held, 32 - r.ready,
    {schema}.tokens(r.rate, r.burst, r.spent_until, coalesce(%(now)s, now())) - r.ready)) as room
  from room r
),
one as materialized (
  -- Where there is room for one, as mostly, it is the first, and that was found already.
  select r.key, r.turn, r.held, r.most, j.key_limit, j.at, 1 as place
  from wide r cross join lateral (
    select ctid as at, key_limit from {schema}.job
    where ctid = r.at and state = 'b' and key = r.key
    for no key update skip locked) j
  where r.room = 1 and not (select anything from shut)
),
line as materialized (
  select r.key, r.turn, r.held, r.most, j.key_limit, j.at, j.place
  from wide r cross join lateral (
    select at, key_limit, seq, row_number() over () as place from (
      select ctid as at, key_limit, seq
      from {schema}.job where state = 'b' and key = r.key and not (select anything from shut)
      order by case when ordered then 0 else -priority end, seq
      limit r.room
      for no key update skip locked) first) j
  where (r.room > 1 or r.room = 1 and r.key not in (select key from one)) and (not r.ordered or j.seq = r.first)
),
able as materialized (
  select r.key, r.turn, r.held, r.most, j.key_limit, j.at, j.place
  from shut cross join wide r cross join lateral (
    select at, key_limit, seq, row_number() over () as place from (
      select ctid as at, key_limit, seq
      from {schema}.job
      -- Some more than there is room for, because one that someone has locked is passed by.
      where state = 'b' and key = r.key
        and ctid = any (array(select {schema}.able_in_line(r.key, r.room + 32, coalesce(%(now)s, now()))))
      order by case when ordered then 0 else -priority end, seq
      limit r.room
      for no key update skip locked) first) j
  where shut.anything and (not r.ordered or j.seq = r.first)
),
first as materialized (
  select key, turn, held, case key_limit when 0 then most else key_limit end as key_limit, at, place
  from (select * from one union all select * from line union all select * from able) found
),
must_wait as materialized (
  -- The first of each key whose own limit is lower than that of the first in line; nobody passes it.
  select key, min(place) as place from first where held + place > key_limit group by key
),
placed as materialized (
  select at, nextval('{schema}.job_seq') as place
  from (
    select f.at from first f left join must_wait w on w.key = f.key
    where w.place is null or f.place < w.place
    order by f.turn, f.place) in_order
),
up as (
  update {schema}.job j set state = 'r', holds = true, seq = p.place
  from placed p where j.ctid = p.at
  returning j.key, j.queue, j.priority, j.seq
),
lane as materialized (
  select queue, priority, min(seq) as place from up group by queue, priority
),
added as (
  delete from {schema}.start where key = any (array(select key from room where begun))
),
spent as (
  -- A moment that has passed says nothing.
  insert into {schema}.bucket (key, rated_in, spent_until)
  select key, rated_in, spent_until from room where begun and greatest(was_until, spent_until) > coalesce(%(now)s, now())
  order by key
  on conflict (key) do update set rated_in = excluded.rated_in, spent_until = excluded.spent_until
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(priority order by priority desc))[1:100], ',') || ' ' || queue)
  from lane where %(channel)s::text is not null
  group by queue
),
owed as (
  select r.key, greatest(0, coalesce(extract(epoch from r.spent_until - coalesce(%(now)s, now())), 0)::double precision
           + (r.ready + coalesce(u.count, 0) - r.burst + 1) / r.rate) as token_in
  from room r left join (select key, count(*)::integer as count from up group by key) u on u.key = r.key
  where r.rate is not null and r.ready + coalesce(u.count, 0) < r.burst and r.first is not null
)
select null as key, (select count(*) from up) as count, null::double precision as token_in, (select count(*) from rung) as rung,
  null as queue, null::smallint as priority, null::bigint as place
union all
select null, 0, null, 0, queue, priority, place from lane
union all
select key, 0, token_in, 0, null, null, null from owed where token_in > 0
union all
select key, 0, paused_for, 0, null, null, null from paused where paused_for is not null
