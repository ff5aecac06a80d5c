-- As writes/await.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.reader_await(%(id)s::uuid, %(now)s::timestamptz)
