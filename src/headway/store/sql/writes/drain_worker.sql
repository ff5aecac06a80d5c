-- Asks a live worker to drain: it hears of it at once, or finds it in its next heartbeat. Asked again, nothing
-- changes; of one that is gone, or of a consumer in SQL, which hears nothing, no row comes back.
with asked as (
  update {schema}.worker set draining = true
  where id = %(worker)s and version <> 'sql' and expires_at > coalesce(%(now)s, now())
  returning id
)
select id, case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'drain ' || id)::text end
from asked
