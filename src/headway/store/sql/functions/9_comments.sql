-- Comments on the columns of the views, for psql's \d+ and other database tools.
comment on column {schema}.jobs.id is 'A UUIDv7: ordered by the time at which the job was made.';
comment on column {schema}.jobs.task is 'The name of the task or flow.';
comment on column {schema}.jobs.step is 'The current step of a flow; '''' for a task of one function.';
comment on column {schema}.jobs.state is
  'ready, scheduled (for run_at), blocked (by a key), running, waiting (for an event), succeeded, failed, cancelled or expired.';
comment on column {schema}.jobs.priority is 'Higher runs first within a queue.';
comment on column {schema}.jobs.attempt is 'The number of attempts of this step, including a running one.';
comment on column {schema}.jobs.run_at is 'The moment from which it may run.';
comment on column {schema}.jobs.started_at is 'When the running or the last attempt was claimed.';
comment on column {schema}.jobs.worker is 'The worker that runs it or ended it.';
comment on column {schema}.jobs.input is 'The arguments by name; for a flow, those of its step.';
comment on column {schema}.jobs.result is 'The value that a job returned, if it succeeded.';
comment on column {schema}.jobs.error is 'Why it did not succeed, or why its last attempt failed: type, message, and for an exception traceback and chain.';
comment on column {schema}.jobs.headers is 'Texts that were given with the job.';
comment on column {schema}.jobs.keys is 'The keys that it has: concurrency, limit, ordered; unique, until_claimed.';
comment on column {schema}.jobs.progress is 'The progress that its handler last reported.';
comment on column {schema}.jobs.expires_at is 'When it expires, if it still waits then.';

comment on column {schema}.queues.ready is 'Jobs that can be claimed now (unless the queue is paused).';
comment on column {schema}.queues.scheduled is 'Jobs that are due at a later moment.';
comment on column {schema}.queues.blocked is 'Jobs that wait for room under their key.';
comment on column {schema}.queues.waiting is 'Jobs that wait for an event.';
comment on column {schema}.queues.oldest_ready_at is 'The moment from which the oldest ready job could have run.';
comment on column {schema}.queues.paused_by is 'The person who paused it.';
comment on column {schema}.queues.paused_until is 'When the pause ends by itself; null: when somebody resumes it.';
comment on column {schema}.queues.concurrency is 'How many of its jobs run at once in the whole fleet; null: any number.';
comment on column {schema}.queues.rate is 'How many of its jobs start in a second; null: any number.';
comment on column {schema}.queues.burst is 'How many of its jobs start at once after a quiet time.';
comment on column {schema}.queues.estimated is 'True if there are too many jobs to count: some numbers are from the last count.';
