-- Lists failed jobs of the archive that match, oldest first: by task, by step, since a moment, by their error.
-- * `pattern` is a regular expression on the error's type and message, in any case.
select id::text, task, step, finished_at, error ->> 'type' as error_type, left(error ->> 'message', 200) as error_message
from {schema}.archive
where state = 'f'
  and (%(task)s::text is null or task = %(task)s::text)
  and (%(step)s::text is null or step = %(step)s::text)
  and (%(since)s::timestamptz is null or finished_at >= %(since)s::timestamptz)
  and (%(pattern)s::text is null or concat(error ->> 'type', ': ', error ->> 'message') ~* %(pattern)s::text)
order by finished_at, id
limit %(limit)s
