-- A clean stop: the lease ends now. Anything that the worker still holds is rescued at once, and suspected of nothing;
-- leadership is free for the next.
with freed as (
  delete from {schema}.duty where worker_id = %(worker)s
)
update {schema}.worker set expires_at = coalesce(%(now)s, now()), seen_at = coalesce(%(now)s, now()), survived = true
where id = %(worker)s
returning id
