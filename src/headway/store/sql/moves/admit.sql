-- blocked -> ready, as many jobs of each key as there is room for. It runs after lock_keys.sql, in the same transaction.
-- * `key_room` is the rule. It counts the jobs that hold room (I9), so there is no counter to leak or to repair.
-- * The first job in line decides how many are considered. Each counts by its own limit, and none overtakes a job
--   that must wait.
-- * Locked rows are skipped, except in an ordered line, where nothing may overtake. The statement that removes the
--   head of an ordered line sends a `room` notification.
-- * A token is taken by a start, not here. Claims record their starts, and this statement adds them to the key's bucket.
-- * The limits of a handler are unknown until a worker declares them. Its jobs wait for that worker, unless no worker
--   of the engine is alive.
-- * Keys take turns. An admitted job goes to the tail of its lane, in the order of `keys`, which is the order in which
--   their room was freed. Each key is in it once.
-- * `shut` is read first: while no queue or task is shut, nothing else asks for it, and lines are read by job_line.
-- * The first row returns how many jobs were admitted. Then comes the first `seq` in each lane: it may lie before a
--   cursor, because others drew later ones and committed sooner. Then come the keys with the seconds until their next
--   token, or until their pause ends.
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
roomy as materialized (
  select k.key, k.turn, f.at, f.ordered, f.seq as first, c.rate, c.burst, c.rated_in,
         spent.begun, spent.was_until, spent.spent_until, h.held, h.ready, rule.most, rule.room
  from wanted k
  left join lateral (
    {part first_in_line k.key}) f on true
  left join {schema}.control c on c.kind = 'keys' and c.name = case
    when f.key_limit = 0 then f.handler
    -- The line is empty, but some of the key have started.
    when f.key_limit is null then (select handler from {schema}.start where key = k.key limit 1) end
  left join lateral (
    select count(*)::integer as held, (count(*) filter (where state = 'r'))::integer as ready
    from {schema}.job where key = k.key and holds) h on true
  left join lateral (
    -- Each start took a token at its own moment, and later starts took theirs. Starts under another rate do not count.
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
  cross join lateral (
    {part key_room}) rule
  where (f.seq is not null or c.rate is not null) and k.key not in (select key from paused)
    and (f.key_limit is distinct from 0 or c.name is not null
         or exists (select 1 from {schema}.task t where t.name = f.handler)
         or not exists (select 1 from {schema}.leader d where d.expires_at > coalesce(%(now)s, now())))
),
one as materialized (
  -- Mostly there is room for one: the first in line, which was found already.
  select r.key, r.turn, r.held, r.most, j.key_limit, j.at, 1 as place
  from roomy r cross join lateral (
    select ctid as at, key_limit from {schema}.job
    where ctid = r.at and state = 'b' and key = r.key
    for no key update skip locked) j
  where r.room = 1 and not (select anything from shut)
),
line as materialized (
  select r.key, r.turn, r.held, r.most, j.key_limit, j.at, j.place
  from roomy r cross join lateral (
    select at, key_limit, seq, row_number() over () as place from (
      select ctid as at, key_limit, seq
      from {schema}.job where state = 'b' and key = r.key and not (select anything from shut)
      order by {part line_rank}, seq
      limit r.room
      for no key update skip locked) first) j
  where (r.room > 1 or r.room = 1 and r.key not in (select key from one)) and (not r.ordered or j.seq = r.first)
),
able as materialized (
  select r.key, r.turn, r.held, r.most, j.key_limit, j.at, j.place
  from shut cross join roomy r cross join lateral (
    select at, key_limit, seq, row_number() over () as place from (
      select ctid as at, key_limit, seq
      from {schema}.job
      -- Some more than there is room for, because locked rows are skipped.
      where state = 'b' and key = r.key
        and ctid = any (array(select {schema}.able_in_line(r.key, r.room + {part turn_size}, coalesce(%(now)s, now()))))
      order by {part line_rank}, seq
      limit r.room
      for no key update skip locked) first) j
  where shut.anything and (not r.ordered or j.seq = r.first)
),
first as materialized (
  select key, turn, held, case key_limit when 0 then most else key_limit end as key_limit, at, place
  from (select * from one union all select * from line union all select * from able) found
),
must_wait as materialized (
  -- The first of each key whose own limit is lower than that of the first in line. None overtakes it.
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
  select queue, priority, 'r'::"char" as state, min(seq) as place from up group by queue, priority
),
added as (
  delete from {schema}.start where key = any (array(select key from roomy where begun))
),
spent as (
  -- A moment that has passed means nothing.
  insert into {schema}.bucket (key, rated_in, spent_until)
  select key, rated_in, spent_until from roomy where begun and greatest(was_until, spent_until) > coalesce(%(now)s, now())
  order by key
  on conflict (key) do update set rated_in = excluded.rated_in, spent_until = excluded.spent_until
),
notified as (
  {part notify_woken lane}
),
next_token as (
  -- If as many are ready as may start at once, the next token comes with a start, and no moment is known.
  select c.key, {part next_token_in c.ready + coalesce(u.count, 0)} as token_in
  from roomy c
  left join (select key, count(*)::integer as count from up group by key) u on u.key = c.key
  cross join lateral (select c.spent_until) spent
  where c.rate is not null and c.ready + coalesce(u.count, 0) < c.burst and c.first is not null
)
select null as key, (select count(*) from up) as count, null::double precision as token_in,
  (select count(*) from notified) as notified, null as queue, null::smallint as priority, null::bigint as place
union all
select null, 0, null, 0, queue, priority, place from lane
union all
select key, 0, token_in, 0, null, null, null from next_token where token_in > 0
union all
select key, 0, paused_for, 0, null, null, null from paused where paused_for is not null
