-- Locks keys before admit.sql, until the transaction ends. So only one session admits under a key.
-- * admit.sql is the next statement, with a newer snapshot: after waiting for the lock, it sees what others committed.
-- * Only transactions that the server ends by itself take this lock: one round trip, without a client in between.
-- * Keys are locked in one order, so that no two sessions wait for each other.
select count(pg_advisory_xact_lock(lock)) from (
  select distinct hashtextextended('{schema}.key ' || key, 0::bigint) as lock
  from jsonb_array_elements_text(%(keys)s::jsonb) as k(key)
  order by 1) in_order
