-- What the columns of the views mean, for whoever looks with \d+ or a browser of databases.
comment on column {schema}.jobs.id is 'A UUIDv7: ordered by the time of making.';
comment on column {schema}.jobs.task is 'The name of the task or flow.';
comment on column {schema}.jobs.step is 'Where a flow stands; '''' for a task of one function.';
comment on column {schema}.jobs.state is
  'ready, scheduled (for run_at), blocked (behind a key), running, waiting (for an event), succeeded, failed, cancelled or expired.';
comment on column {schema}.jobs.priority is 'Higher runs first within a queue.';
comment on column {schema}.jobs.attempt is 'How often this step was tried, the running attempt included.';
comment on column {schema}.jobs.run_at is 'When it may run, or could for the last time.';
comment on column {schema}.jobs.started_at is 'When the running, or the last, attempt was claimed.';
comment on column {schema}.jobs.worker is 'The worker that runs it, or ended it.';
comment on column {schema}.jobs.input is 'The arguments by name; of a flow, those of its step.';
comment on column {schema}.jobs.result is 'What a job that succeeded returned.';
comment on column {schema}.jobs.error is 'Why it did not succeed: type, message, and for an exception traceback and chain.';
comment on column {schema}.jobs.headers is 'Texts that travel with the job.';
comment on column {schema}.jobs.keys is 'concurrency, limit, ordered; unique, until_claimed: those that it has.';
comment on column {schema}.jobs.progress is 'What a running job last said of how far it is.';
comment on column {schema}.jobs.expires_at is 'When it ends as expired, if it still waits then.';

comment on column {schema}.queues.ready is 'Jobs that can be claimed now (unless the queue is paused).';
comment on column {schema}.queues.scheduled is 'Jobs that are due later.';
comment on column {schema}.queues.blocked is 'Jobs that wait for room under their key.';
comment on column {schema}.queues.waiting is 'Jobs that wait for an event.';
comment on column {schema}.queues.oldest_ready_at is 'Since when the oldest ready job could have run.';
comment on column {schema}.queues.paused_by is 'Who paused it.';
comment on column {schema}.queues.paused_until is 'When it opens by itself; null: when someone resumes it.';
comment on column {schema}.queues.concurrency is 'How many of it run at once in the whole fleet; null: any number.';
comment on column {schema}.queues.rate is 'How many of it start in a second; null: any number.';
comment on column {schema}.queues.burst is 'How many of it start at once after a pause.';
comment on column {schema}.queues.estimated is 'There are too many jobs to be counted: some of the numbers are of a while ago.';
