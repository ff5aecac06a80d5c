-- As moves/transfer.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_transfer(%(queue)s::text, %(target)s::text, %(task)s::text, %(after)s::uuid, %(before)s::timestamptz,
  %(channel)s::text, %(now)s::timestamptz)
