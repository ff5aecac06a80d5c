-- Notifies workers of jobs that have committed, on the client's own connection for that (bell.py).
-- * It commits asynchronously: NOTIFY holds a lock of the whole cluster until its commit is flushed. A lost notification
--   costs a poll interval.
-- * The setting is local, so it also holds behind a pooler.
with hinted as materialized (
  select h.queue, h.priority, h.state
  from (select set_config('synchronous_commit', 'off', true)) relaxed
  cross join jsonb_to_recordset(%(hints)s::jsonb) as h(queue text, priority smallint, state "char")
)
{part notify_woken hinted}
