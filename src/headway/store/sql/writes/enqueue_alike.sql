-- Enqueues plain jobs that differ in their id and input only, on a connection of our own.
-- * One INSERT from a document: COPY could not skip jobs that a repetition has made already.
-- * Places in the lane follow the order of the document.
-- * The client notifies after its commit, as for enqueue_one.sql.
insert into {schema}.new_jobs (id, max_attempts, priority, queue, task, step, input)
select made.id, %(max_attempts)s::smallint, %(priority)s::smallint, %(queue)s::text, %(task)s::text,
  %(step)s::text, made.input
from jsonb_to_recordset(%(jobs)s::jsonb) as made(id uuid, input jsonb)
on conflict do nothing
