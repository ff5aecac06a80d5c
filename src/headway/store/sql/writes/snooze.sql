-- Postpones a consumer's job (functions/5_consumers.sql).
select {schema}.snooze(%(id)s::uuid, %(claim)s::bigint, make_interval(secs => %(delay)s::double precision))
