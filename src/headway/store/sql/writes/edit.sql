-- Replaces the input of a job that does not run: one that waits, or one that ended and may be revived.
-- * Its state and its keys stay as they are.
with waiting as (
  update {schema}.job set input = %(input)s::jsonb
  where id = %(id)s::uuid and state in ('r', 's', 'b', 'w')
    and (%(step)s::text is null or step = %(step)s::text)
  returning id
),
ended as (
  update {schema}.archive set input = %(input)s::jsonb
  where id = %(id)s::uuid and state in ('f', 'c', 'e')
    and (%(step)s::text is null or step = %(step)s::text)
  returning id
)
select id::text from waiting union all select id::text from ended
