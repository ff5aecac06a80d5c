-- blocked -> ready, as many of each key as there is room for; only behind lock_keys.sql.
-- Room is what a job's limit leaves after counting those that hold some (I9), so there is no counter to
-- leak or to repair. The first in line decides how many are looked at; each counts by its own limit, and
-- none passes one that must wait. A row that someone else has locked is being changed: it is passed by,
-- but not in an ordered line, where nobody may pass; who takes the first one out of that says so.
with room as (
  select k.key, f.key_limit as most, f.ordered, f.seq as first,
         (select count(*)::integer from {schema}.job h where h.key = k.key and h.holds) as held
  from (select distinct key from jsonb_array_elements_text(%(keys)s::jsonb) as given(key)) k
  cross join lateral (
    select key_limit, ordered, seq from {schema}.job where state = 'b' and key = k.key
    order by case when ordered then 0 else -priority end, seq
    limit 1) f
),
line as materialized (
  select r.key, r.held, j.*
  from room r cross join lateral (
    select ctid as at, key_limit, case when ordered then 0 else -priority end as rank, seq
    from {schema}.job where state = 'b' and key = r.key
    order by case when ordered then 0 else -priority end, seq
    limit greatest(0, r.most - r.held)
    for no key update skip locked) j
  where not r.ordered or j.seq = r.first
),
fits as (
  select at, bool_and(held + place <= key_limit) over (partition by key order by rank, seq) as fits
  from (select *, row_number() over (partition by key order by rank, seq) as place from line) numbered
),
up as (
  update {schema}.job set state = 'r', holds = true, seq = nextval('{schema}.job_seq')
  where ctid = any (array(select at from fits where fits))
  returning queue, priority
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from up where %(channel)s::text is not null
  group by queue
)
select (select count(*) from up), (select count(*) from rung)
