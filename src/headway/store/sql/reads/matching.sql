-- The jobs of the archive that failed and match: of a task, of a step, since a moment, with an error whose
-- type and message contain a pattern (a regular expression, in any case). Oldest first.
select id::text, task, step, finished_at, error ->> 'type' as error_type, left(error ->> 'message', 200) as error_message
from {schema}.archive
where state = 'f'
  and (%(task)s::text is null or task = %(task)s::text)
  and (%(step)s::text is null or step = %(step)s::text)
  and (%(since)s::timestamptz is null or finished_at >= %(since)s::timestamptz)
  and (%(pattern)s::text is null or concat(error ->> 'type', ': ', error ->> 'message') ~* %(pattern)s::text)
order by finished_at, id
limit %(limit)s
