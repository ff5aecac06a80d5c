-- Says that there may be room under these keys, once this transaction has committed.
select count(pg_notify(%(channel)s::text, 'room ' || key))
from jsonb_array_elements_text(%(keys)s::jsonb) as k(key) where %(channel)s::text is not null
