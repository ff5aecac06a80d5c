-- Asks a live worker to drain: its next heartbeat reads the request. Asking again changes nothing.
-- * No row comes back if the worker is gone, or if it is a consumer in SQL, which reads no requests.
-- * The request is a row of its own: a transaction that stays open does not hold up the heartbeat (G14).
with alive as (
  select id from {schema}.worker
  where id = %(worker)s and version <> 'sql' and expires_at > coalesce(%(now)s, now())
),
asked as (
  insert into {schema}.drain_request (worker_id, asked_at)
  select id, coalesce(%(now)s, now()) from alive
  where not exists (select 1 from {schema}.drain_request r where r.worker_id = alive.id)
)
select id, case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'drain ' || id)::text end
from alive
