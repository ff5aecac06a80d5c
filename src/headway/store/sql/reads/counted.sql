-- Counts live jobs by queue and state in the pages from `first` to before `last`. The first row has the number of pages.
-- * A few pages at a time, so that no vacuum waits for it.
select null as queue, null as state, pg_relation_size('{schema}.job') / current_setting('block_size')::bigint as count
union all
select queue, state::text, count(*)
from {schema}.job
where ctid >= %(first)s::tid and ctid < %(last)s::tid
group by queue, state
