-- Every key that has a line, some at a time behind `key` and found by hopping over the index, with
-- whether there is room for the first in line; where it is a token that is missing, or a pause that holds it
-- up until a moment, in how long there is room.
with recursive line(key, place) as (
  select (select min(key) from {schema}.job where state = 'b' and key > %(key)s::text), 1
  union all
  select (select min(j.key) from {schema}.job j where j.state = 'b' and j.key > line.key), place + 1
  from line where line.key is not null and place < %(limit)s
)
select l.key, coalesce(r.open and not r.paused and coalesce(r.token_in, 0) <= 0, false) as room,
       case when r.open and (r.paused_for is not null or not r.paused) then greatest(r.token_in, r.paused_for) end
         as token_in
from line l
left join lateral (
  select (select count(*) from {schema}.job h where h.key = l.key and h.holds)
           < case f.key_limit when 0 then coalesce(c.concurrency, 32000) else f.key_limit end as open,
         case when c.rate is not null then (
           select extract(epoch from b.spent_until - coalesce(%(now)s, now()))::double precision - (c.burst - 1) / c.rate
           from {schema}.bucket b where b.key = l.key) end as token_in,
         p.name is not null as paused,
         extract(epoch from p.paused_until - coalesce(%(now)s, now()))::double precision as paused_for
  from (
    select key_limit, case step when '' then task else task || '/' || step end as handler
    from {schema}.job f where f.state = 'b' and f.key = l.key
    order by case when f.ordered then 0 else -f.priority end, f.seq limit 1) f
  left join {schema}.control c on f.key_limit = 0 and c.kind = 'keys' and c.name = f.handler
  left join {schema}.control p on p.kind = 'key' and p.name = l.key and p.paused_at is not null
    and coalesce(p.paused_until > coalesce(%(now)s, now()), true)) r on true
where l.key is not null
order by l.place
