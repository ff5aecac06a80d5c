-- Ends a consumer's job as succeeded (functions/5_consumers.sql).
select {schema}.complete(%(id)s::uuid, %(claim)s::bigint, %(result)s::jsonb)
