-- The jobs of `pick` that a claim takes: at most 4 MiB as stored, or one job. The rest stays ready, and `cut` is true.
light as materialized (
  select ctid, before from (
    select ctid, sum(weight) over (rows between unbounded preceding and 1 preceding) as before from pick) p
  where before is null or before < 4194304
)
