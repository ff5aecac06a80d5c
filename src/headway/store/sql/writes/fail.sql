-- Ends a consumer's attempt as failed (functions/5_consumers.sql).
select {schema}.fail(%(id)s::uuid, %(claim)s::bigint, %(message)s::text, %(again)s::boolean,
  make_interval(secs => %(delay)s::double precision))
