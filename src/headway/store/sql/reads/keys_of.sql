-- Lists the concurrency keys of these jobs, live or archived.
-- * Notifications name jobs, not keys: everybody who can connect hears them.
with wanted as (
  select id::uuid from jsonb_array_elements_text(%(ids)s::jsonb) as given(id)
)
select key from {schema}.job where id = any (array(select id from wanted)) and key is not null
union
select key from {schema}.archive where id = any (array(select id from wanted)) and key is not null
