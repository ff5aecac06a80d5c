-- Runs failed jobs again, many at once, as the function for operators does. Returns the ids of those that run again.
-- * In the order given, so that two who retry the same jobs do not deadlock.
select g.id from jsonb_array_elements_text(%(ids)s::jsonb) with ordinality as g(id, place)
where {schema}.retry(g.id::uuid, %(step)s::text)
order by g.place
