-- As writes/edit.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_edit(%(id)s::uuid, %(step)s::text, %(input)s::jsonb)
