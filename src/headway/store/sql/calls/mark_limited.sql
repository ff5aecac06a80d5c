-- As writes/mark_limited.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_mark_limited(%(worker)s::bigint)
