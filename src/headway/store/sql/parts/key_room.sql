-- The rule of admission: how many more jobs of a key may become ready now (`room`), and if none because a token is
-- missing, in how many seconds the next one may (`next_in`).
-- * `f` is the first job in line (key_limit), `c` the limits of each key of its handler, or nulls, `h` the count of
--   jobs that hold room under the key (held) and of the ready ones among them (ready), `spent` the key's bucket
--   (spent_until), or null.
-- * A key_limit of 0 stands for the limits in `c`. Without a concurrency there, `most` is more than any key reaches.
-- * At most a turn is ready at a time, and each ready job has a token reserved for its start.
-- * `next_in` is null if a job has to start or end first.
select m.most,
       greatest(0, least(m.most - h.held, {part turn_size} - h.ready,
         {schema}.tokens(c.rate, c.burst, spent.spent_until, coalesce(%(now)s, now())) - h.ready)) as room,
       case when h.held < m.most and h.ready < least({part turn_size}, c.burst)
            then {part next_token_in h.ready} end as next_in
from (select case f.key_limit when 0 then coalesce(c.concurrency, 32000) else f.key_limit end as most) m
