-- Every key that has a line, or starts that nobody has added to its bucket, some at a time behind `key` and found
-- by hopping over the indexes, with whether there is something to do under it: room for the first in line, or such
-- starts. Where it is a token that is missing, or a pause that holds it up until a moment, in how long there is
-- room. It is for admit.sql to count exactly. Of those whose queue or task is shut the ready are no hindrance, as they
-- give way (give_way.sql), and those in line are passed by.
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
       p.name is null and (exists (select 1 from {schema}.start s where s.key = l.key)
                           or coalesce(r.open and coalesce(r.token_in, 0) <= 0, false)) as room,
       case when r.open and (p.name is null or p.paused_for is not null) then greatest(r.token_in, p.paused_for) end
         as token_in
from line l
left join lateral (
  select h.held < case f.key_limit when 0 then coalesce(c.concurrency, 32000) else f.key_limit end
           and h.ready < least(32, c.burst) as open,
         case when c.rate is not null then (
           select extract(epoch from b.spent_until - coalesce(%(now)s, now()))::double precision
                  + (h.ready - c.burst + 1) / c.rate
           from {schema}.bucket b where b.key = l.key and b.rated_in = c.rated_in) end as token_in
  from (
    (select key_limit, case step when '' then task else task || '/' || step end as handler
     from {schema}.job f where f.state = 'b' and f.key = l.key and not (select anything from shut)
     order by case when f.ordered then 0 else -f.priority end, f.seq limit 1)
    union all
    select j.key_limit, case j.step when '' then j.task else j.task || '/' || j.step end
    from shut cross join lateral {schema}.able_in_line(l.key, 1, coalesce(%(now)s, now())) as a(at)
    join {schema}.job j on j.ctid = a.at
    where shut.anything) f
  left join {schema}.control c on f.key_limit = 0 and c.kind = 'keys' and c.name = f.handler
  cross join lateral (
    select count(*) as held, count(*) filter (where state = 'r') as ready
    from {schema}.job where key = l.key and holds
      and (not (select anything from shut) or state <> 'r' or ordered
           or not {schema}.shut(queue, task, step, coalesce(%(now)s, now())))) h) r on true
left join lateral (
  select name, extract(epoch from paused_until - coalesce(%(now)s, now()))::double precision as paused_for
  from {schema}.control
  where kind = 'key' and name = l.key and paused_at is not null
    and coalesce(paused_until > coalesce(%(now)s, now()), true)) p on true
where l.key is not null
order by l.place
