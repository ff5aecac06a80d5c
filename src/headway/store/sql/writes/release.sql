-- Gives a consumer's job back as it was (functions/5_consumers.sql).
select {schema}.release(%(id)s::uuid, %(claim)s::bigint)
