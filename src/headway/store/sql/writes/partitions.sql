-- Empties the default partitions, makes the next partitions and drops those past retention. Returns how many of each.
-- * Each of the three is bounded. fleet.partitions() tells whether there may be more to do.
select {schema}.empty_nets(coalesce(%(now)s, now())),
       {schema}.add_partitions(coalesce(%(now)s, now()), 3),
       {schema}.drop_partitions(coalesce(%(now)s, now()))
