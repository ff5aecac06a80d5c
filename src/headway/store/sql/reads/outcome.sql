-- What is needed of a job to say whether it has ended and how; no payload is read.
select state, null as result, null as error from {schema}.job where id = %(id)s::uuid
union all
select state, result::text, error::text from {schema}.archive where id = %(id)s::uuid
