-- As writes/drain_worker.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_drain_worker(%(worker)s::bigint, %(channel)s::text, %(now)s::timestamptz)
