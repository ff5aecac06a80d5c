-- Lists every pause and limit.
-- * Workers use the first columns. The rest is for people.
select kind, name,
       paused_at is not null and coalesce(paused_until > coalesce(%(now)s, now()), true) as paused,
       case when paused_at is not null
            then extract(epoch from paused_until - coalesce(%(now)s, now()))::double precision end as paused_for,
       concurrency, rate, burst,
       paused_at, paused_until, paused_by, pause_reason, declared::text, changed_at, changed_by
from {schema}.control
order by kind, name
