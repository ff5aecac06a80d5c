-- Empty the default partitions, make the next partitions and drop those past retention. Return how many rows and
-- partitions. Each part is bounded; fleet.partitions() says when there may be more to do.
select {schema}.empty_nets(coalesce(%(now)s, now())),
       {schema}.add_partitions(coalesce(%(now)s, now()), 3),
       {schema}.drop_partitions(coalesce(%(now)s, now()))
