-- Notifies workers that there is room again under these limits (`queue mail`, `task resize`).
-- * Workers that found none wait for it.
select count(pg_notify(%(channel)s::text, 'open ' || name))
from jsonb_array_elements_text(%(limits)s::jsonb) as l(name) where %(channel)s::text is not null
