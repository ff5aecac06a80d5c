-- Counts the jobs that match, live and finished. It reads every row that may match: for people, not for loops.
select (
  select count(*) from {schema}.job
  where (%(states)s::text is null or state in (select jsonb_array_elements_text(%(states)s::jsonb)::"char"))
    and (%(task)s::text is null or task = %(task)s::text)
    and (%(step)s::text is null or step = %(step)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
) + (
  select count(*) from {schema}.archive
  where (%(states)s::text is null or state in (select jsonb_array_elements_text(%(states)s::jsonb)::"char"))
    and (%(task)s::text is null or task = %(task)s::text)
    and (%(step)s::text is null or step = %(step)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
) as count
