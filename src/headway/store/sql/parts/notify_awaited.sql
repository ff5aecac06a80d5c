-- Notifies those who await the end of jobs that have just ended: callers, and the leader for the follow-up of a group.
select case when follow_up = '00000000-0000-0000-0000-000000000000' then pg_notify(%(done)s::text, job_id::text)
            else pg_notify(%(channel)s::text, 'gather ' || follow_up) end
from was_awaited where %(done)s::text is not null
