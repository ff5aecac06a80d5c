-- The first job in line behind the key {of} that could run.
-- * `shut` says whether any queue or task is shut. If none is, the first job of the line's index is the one.
-- * Otherwise able_in_line skips the shut sections of the line.
(select ctid as at, key_limit, ordered, seq, {part handler} as handler
 from {schema}.job where state = 'b' and key = {of} and not (select anything from shut)
 order by {part line_rank}, seq
 limit 1)
union all
select j.ctid, j.key_limit, j.ordered, j.seq, {part handler j}
from shut cross join lateral {schema}.able_in_line({of}, 1, coalesce(%(now)s, now())) as a(at)
join {schema}.job j on j.ctid = a.at
where shut.anything
