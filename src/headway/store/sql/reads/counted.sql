-- How many live jobs of each queue and state lie in some pages of the table, from `first` to before `last`,
-- behind a first row with how many pages there are. A part at a time, so that nobody's vacuum waits for it.
select null as queue, null as state, pg_relation_size('{schema}.job') / current_setting('block_size')::bigint as count
union all
select queue, state::text, count(*)
from {schema}.job
where ctid >= %(first)s::tid and ctid < %(last)s::tid
group by queue, state
