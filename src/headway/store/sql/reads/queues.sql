-- Returns the view `queues`, with the age of the oldest ready job and the rest of a pause in seconds.
select queue as name, ready, scheduled, blocked, running, waiting,
       extract(epoch from coalesce(%(now)s, now()) - oldest_ready_at)::double precision as oldest_ready_age,
       paused_at, paused_by, pause_reason, paused_until,
       extract(epoch from paused_until - coalesce(%(now)s, now()))::double precision as paused_for,
       concurrency, rate, burst, estimated
from {schema}.queues order by queue
