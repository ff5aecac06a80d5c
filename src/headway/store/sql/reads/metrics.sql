-- Returns the counts of one queue, or of all: its live jobs and how jobs ended (functions/2_metrics.sql).
select queue as name, ready, scheduled, blocked, running, waiting,
       extract(epoch from coalesce(%(now)s, now()) - oldest_ready_at)::double precision as oldest_ready_age,
       extract(epoch from coalesce(%(now)s, now()) - newest_ready_at)::double precision as newest_ready_age,
       succeeded, failed, cancelled, expired, estimated, as_of
from {schema}.measure(%(queue)s::text, %(now)s::timestamptz)
order by queue
