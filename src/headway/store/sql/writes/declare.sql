-- Stores what a worker knows about its tasks, for those who make or end a job without its code.
-- * Only rows that change are written, in the order of their names.
-- * A task that is no longer declared stays, for the jobs that are still there.
insert into {schema}.task as t (name, first_step, queue, priority, max_attempts, max_crashes, keep_succeeded,
                                keep_failed, dead_letter, on_failure, keys)
select name, coalesce(first_step, ''), queue, priority, max_attempts, max_crashes, make_interval(secs => keep_succeeded),
       make_interval(secs => keep_failed), dead_letter, on_failure, keys
from jsonb_to_recordset(%(tasks)s::jsonb) as d(name text, first_step text, queue text, priority smallint,
  max_attempts smallint, max_crashes smallint, keep_succeeded double precision, keep_failed double precision, dead_letter text,
  on_failure text, keys text[])
order by name
on conflict (name) do update
set first_step = excluded.first_step, queue = excluded.queue, priority = excluded.priority,
    max_attempts = excluded.max_attempts, max_crashes = excluded.max_crashes, keep_succeeded = excluded.keep_succeeded,
    keep_failed = excluded.keep_failed, dead_letter = excluded.dead_letter, on_failure = excluded.on_failure,
    keys = excluded.keys
where row(t.*) is distinct from row(excluded.*)
returning name
