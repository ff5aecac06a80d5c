-- As writes/reset_limit.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_reset_limit(%(kind)s::text, %(name)s::text, %(channel)s::text)
