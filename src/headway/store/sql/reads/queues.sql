-- What the view of the same name says, with the age of the oldest ready job.
select queue, ready, scheduled, blocked, running, waiting,
       extract(epoch from coalesce(%(now)s, now()) - oldest_ready_at)::double precision,
       paused_at, paused_by, pause_reason
from {schema}.queues order by queue
