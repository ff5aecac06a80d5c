-- Returns whether a job has ended, and how.
-- * It reads no input.
select state, null as result, null as error from {schema}.job where id = %(id)s::uuid
union all
select state, result::text, error::text from {schema}.archive where id = %(id)s::uuid
