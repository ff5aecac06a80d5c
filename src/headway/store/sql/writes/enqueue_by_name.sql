-- Enqueues a job as SQL callers do. The task's declaration fills in the options that are left out.
-- * The id is given, so that a repetition makes no second job.
-- * Another id comes back if another job has the unique key.
select {schema}.enqueue(
  task => %(task)s, input => %(input)s::jsonb, queue => %(queue)s, delay => make_interval(secs => %(delay)s),
  at => %(at)s::timestamptz, priority => %(priority)s, ttl => make_interval(secs => %(ttl)s),
  headers => %(headers)s::jsonb, concurrency_key => %(concurrency_key)s, concurrency_limit => %(limit)s,
  ordered => %(ordered)s, unique_key => %(unique_key)s, on_taken => %(on_taken)s, id => %(id)s::uuid,
  limit_key => %(limit_key)s, no_keys => %(no_keys)s) as id
