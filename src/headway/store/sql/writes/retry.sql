-- Runs failed jobs again, many at once, as the function for operators does; the ids that there was something
-- to repeat of. In the order given: two who retry the same jobs do not wait for each other in a circle.
select g.id from jsonb_array_elements_text(%(ids)s::jsonb) with ordinality as g(id, place)
where {schema}.retry(g.id::uuid, %(step)s::text)
order by g.place
