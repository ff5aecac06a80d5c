-- Makes the jobs of a group and its follow-up. Returns the members that were not made, each with the job that has its key.
-- * One function for every caller (functions/3_groups.sql). Repeating it makes nothing new.
select asked::text, id::text
from {schema}.enqueue_group(%(jobs)s::jsonb, %(follow_up)s::jsonb, %(all_but)s::integer, %(channel)s::text, %(now)s::timestamptz)
