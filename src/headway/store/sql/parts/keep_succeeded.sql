-- How long a job that succeeded is kept, if no worker has declared its task. In hours: a day may have 23 of them in the
-- session's time zone. core/config.py has the same.
interval '168 hours'
