-- blocked -> ready, as many of each key as there is room for; only behind lock_keys.sql.
-- Room is what a job's limit leaves after counting those that hold some (I9), so there is no counter to
-- leak or to repair. The first in line decides how many are looked at; each counts by its own limit, and
-- none passes one that must wait. A row that someone else has locked is being changed: it is passed by,
-- but not in an ordered line, where nobody may pass; who takes the first one out of that says so.
-- A limit of 0 is what is said of each key of its handler (`keys` in control), and may have a rate: then a
-- job takes a token as well, from the bucket of its key, which the same lock guards.
-- Keys take turns: who is let in goes to the tail of its lane, in the order in which the keys are given, and
-- that is the one in which their room was freed.
-- Back comes for each key how many it let in, and when there will be a token for one with a rate, or an end
-- to a pause that has one.
with wanted as (
  select key, min(turn) as turn from jsonb_array_elements_text(%(keys)s::jsonb) with ordinality as given(key, turn) group by key
),
paused as materialized (
  select name as key, extract(epoch from paused_until - coalesce(%(now)s, now()))::double precision as paused_for
  from {schema}.control
  where kind = 'key' and name in (select key from wanted) and paused_at is not null
    and coalesce(paused_until > coalesce(%(now)s, now()), true)
),
room as (
  select k.key, k.turn, f.ordered, f.seq as first, c.rate, c.burst,
         case f.key_limit when 0 then coalesce(c.concurrency, 32000) else f.key_limit end as most,
         (select count(*)::integer from {schema}.job h where h.key = k.key and h.holds) as held,
         case when c.rate is not null then greatest(0, extract(epoch from (
           select b.spent_until from {schema}.bucket b where b.key = k.key)
           - coalesce(%(now)s, now())))::double precision end as spent_for
  from wanted k
  cross join lateral (
    select key_limit, ordered, seq, case step when '' then task else task || '/' || step end as handler
    from {schema}.job where state = 'b' and key = k.key
    order by case when ordered then 0 else -priority end, seq
    limit 1) f
  left join {schema}.control c on f.key_limit = 0 and c.kind = 'keys' and c.name = f.handler
  where k.key not in (select key from paused)
),
line as materialized (
  select r.key, r.turn, r.held, j.id,
         case j.key_limit when 0 then r.most else j.key_limit end as key_limit, j.at, j.rank, j.seq
  from room r cross join lateral (
    select ctid as at, id, key_limit, case when ordered then 0 else -priority end as rank, seq
    from {schema}.job where state = 'b' and key = r.key
    order by case when ordered then 0 else -priority end, seq
    limit greatest(0, least(r.most - r.held, floor(r.burst + 0.000001 - r.spent_for * r.rate)::integer))
    for no key update skip locked) j
  where not r.ordered or j.seq = r.first
),
fits as (
  select at, id, turn, rank, seq, bool_and(held + place <= key_limit) over (partition by key order by rank, seq) as fits
  from (select *, row_number() over (partition by key order by rank, seq) as place from line) numbered
),
placed as materialized (
  select jsonb_object_agg(id, nextval('{schema}.job_seq')) as places
  from (select id from fits where fits order by turn, rank, seq) in_order
),
up as (
  update {schema}.job
  set state = 'r', holds = true, seq = ((select places from placed) ->> id::text)::bigint,
      rated = key = any (array(select key from room where rate is not null))
  where ctid = any (array(select at from fits where fits))
  returning key, queue, priority
),
taken as (
  select r.*, count(u.key) as count from room r left join up u on u.key = r.key
  group by r.key, r.turn, r.ordered, r.first, r.rate, r.burst, r.most, r.held, r.spent_for
),
spent as (
  insert into {schema}.bucket (key, spent_until)
  select key, coalesce(%(now)s, now()) + make_interval(secs => spent_for + count / rate)
  from taken where rate is not null and count > 0
  order by key
  on conflict (key) do update set spent_until = excluded.spent_until
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from up where %(channel)s::text is not null
  group by queue
)
select key, count, case when rate is not null then greatest(0, spent_for + (count - burst + 1) / rate) end as token_in,
       (select count(*) from rung) as rung
from taken
union all
select key, 0, paused_for, 0 from paused where paused_for is not null
