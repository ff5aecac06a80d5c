-- Enqueues one plain job on a connection of our own. Its state and its moments are the defaults of the view.
-- * One INSERT, prepared: no function, no document, no notification. The client notifies after its commit (bell.py).
-- * Repeating it makes no second job while the first lives. withdraw.sql covers the rest.
insert into {schema}.new_jobs (id, max_attempts, priority, queue, task, step, input)
values (%(id)s::uuid, %(max_attempts)s::smallint, %(priority)s::smallint, %(queue)s::text, %(task)s::text,
  %(step)s::text, %(input)s::jsonb)
on conflict do nothing
