-- Lists keys that have blocked jobs or unrecorded starts, one page at a time after `key`, and whether each needs attention.
-- * It is a loose index scan: one step of an index for each key, however long its line is.
-- * `room` is true if a job can be admitted (key_room), or if starts have to be added to the key's bucket. admit.sql counts
--   again, under the key's lock.
-- * `room_in` is in how many seconds there is room, if only a token is missing or a pause ends by itself.
-- * While a queue or task is shut, its jobs in line are skipped, and its ready jobs do not count: unadmit.sql takes their
--   room.
with recursive shut as materialized (
  select {schema}.anything_shut(coalesce(%(now)s, now())) as anything
),
line(key, place) as (
  select least((select min(key) from {schema}.job where state = 'b' and key > %(key)s::text),
               (select min(key) from {schema}.start where key > %(key)s::text)), 1
  union all
  select least((select min(j.key) from {schema}.job j where j.state = 'b' and j.key > line.key),
               (select min(s.key) from {schema}.start s where s.key > line.key)), place + 1
  from line where line.key is not null and place < %(limit)s
)
select l.key,
       p.name is null and (exists (select 1 from {schema}.start s where s.key = l.key) or coalesce(r.room > 0, false)) as room,
       case when r.next_in is not null and (p.name is null or p.paused_for is not null)
            then nullif(greatest(r.next_in, p.paused_for), 0) end as room_in
from line l
left join lateral (
  select rule.room, rule.next_in
  from (
    {part first_in_line l.key}) f
  left join {schema}.control c on f.key_limit = 0 and c.kind = 'keys' and c.name = f.handler
  cross join lateral (
    select case when c.rate is not null then (
      select b.spent_until from {schema}.bucket b where b.key = l.key and b.rated_in = c.rated_in) end as spent_until) spent
  cross join lateral (
    select count(*)::integer as held, (count(*) filter (where state = 'r'))::integer as ready
    from {schema}.job where key = l.key and holds
      and (not (select anything from shut) or state <> 'r' or ordered
           or not {schema}.shut(queue, task, step, coalesce(%(now)s, now())))) h
  cross join lateral (
    {part key_room}) rule) r on true
left join lateral (
  select name, extract(epoch from paused_until - coalesce(%(now)s, now()))::double precision as paused_for
  from {schema}.control
  where kind = 'key' and name = l.key and paused_at is not null
    and coalesce(paused_until > coalesce(%(now)s, now()), true)) p on true
where l.key is not null
order by l.place
