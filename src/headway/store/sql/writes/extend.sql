-- Extends the lease of a consumer's claim, and of those claimed with it (functions/5_consumers.sql).
select {schema}.extend(%(id)s::uuid, %(claim)s::bigint, make_interval(secs => %(lease)s))
