-- Makes the archive's partitions ahead of time and drops those past retention.
select {schema}.add_partitions(coalesce(%(now)s, now()), 3),
       {schema}.drop_partitions(coalesce(%(now)s, now()))
