-- Every key that has a line, some at a time behind `key` and found by hopping over the index, with
-- whether there is room for the first in line.
with recursive line(key, place) as (
  select (select min(key) from {schema}.job where state = 'b' and key > %(key)s::text), 1
  union all
  select (select min(j.key) from {schema}.job j where j.state = 'b' and j.key > line.key), place + 1
  from line where line.key is not null and place < %(limit)s
)
select l.key,
       (select count(*) from {schema}.job h where h.key = l.key and h.holds)
       < (select f.key_limit from {schema}.job f where f.state = 'b' and f.key = l.key
          order by case when f.ordered then 0 else -f.priority end, f.seq limit 1) as room
from line l where l.key is not null
order by l.place
