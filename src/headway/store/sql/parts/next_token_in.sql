-- In how many seconds a key earns a token for one more start, if {of} jobs that are ready have one reserved.
-- * `c` is the key's rate and `spent` its bucket, as in key_room. Without a rate, or with a token left, it is 0.
greatest(0, coalesce(extract(epoch from spent.spent_until - coalesce(%(now)s, now())), 0)::double precision
            + ({of} - c.burst + 1) / c.rate)
