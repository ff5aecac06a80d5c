-- Enqueues one plain job on a connection of the caller's. Makes none if that leads to another database than the app's.
-- * It notifies in the caller's transaction, because only the caller knows when that commits. It does so in the condition:
--   a result would have to be read.
-- * The number of rows tells whether the job was made.
insert into {schema}.new_jobs (id, max_attempts, priority, queue, task, step, input)
select %(id)s::uuid, %(max_attempts)s::smallint, %(priority)s::smallint, %(queue)s::text, %(task)s::text,
  %(step)s::text, %(input)s::jsonb
where current_database()::text = %(database)s::text
  and extract(epoch from pg_postmaster_start_time())::text = %(server)s::text
  and case when %(channel)s::text is null then true
      else pg_notify(%(channel)s::text, {part ready_hint %(priority)s::text || ' ' || %(queue)s::text}) is not null end
on conflict do nothing
