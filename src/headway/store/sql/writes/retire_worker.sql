-- Ends a worker's lease now, for a clean stop, and its leadership with it.
-- * Jobs that it still holds are rescued at once, and none of them is suspected of a crash.
with freed as (
  delete from {schema}.leader where worker_id = %(worker)s
)
update {schema}.worker set expires_at = coalesce(%(now)s, now()), seen_at = coalesce(%(now)s, now()), survived = true
where id = %(worker)s
returning id
