-- Who admits under a key has its lock until its transaction ends, and counts in the next statement:
-- one that waited for a lock still sees what was before. Only transactions that the server ends by
-- itself take it (one round trip, no client in between). Always in one order, so that no two wait
-- for each other.
select count(pg_advisory_xact_lock(lock)) from (
  select distinct hashtextextended('{schema}.key ' || key, 0::bigint) as lock
  from jsonb_array_elements_text(%(keys)s::jsonb) as k(key)
  order by 1) in_order
