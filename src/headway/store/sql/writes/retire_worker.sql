-- A clean stop: the lease ends now, so that anything it still holds is rescued at once, and its duty
-- is free for the next.
with freed as (
  delete from {schema}.duty where worker_id = %(worker)s
)
update {schema}.worker set expires_at = coalesce(%(now)s, now()), seen_at = coalesce(%(now)s, now())
where id = %(worker)s
returning id
