-- Ends a worker's lease now, for a clean stop, and its leadership with it.
-- * Jobs that it still holds are rescued at once. None of them is suspected of a crash if the process `survived`.
with freed as (
  delete from {schema}.leader where worker_id = %(worker)s
)
update {schema}.worker set expires_at = coalesce(%(now)s, now()), seen_at = coalesce(%(now)s, now()), survived = %(survived)s
where id = %(worker)s
returning id
