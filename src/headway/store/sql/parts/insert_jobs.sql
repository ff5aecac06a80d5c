-- Inserts the jobs of {of}, an array of new_job, that have no unique key, or one that is free. Ends with the CTEs `made` and
-- `notified`, which the statement must read.
-- * Repeating it with the same ids makes no new jobs while the first ones live. withdraw.sql covers the rest.
-- * It locks only the new rows: a caller's transaction may stay open.
-- * Without a channel nobody is notified.
-- * `place` is the seq of a single job that has drawn one. Others draw theirs, in the order given.
with due as (
  select g.*, coalesce(moment, now()) as since,
         coalesce(g.at, coalesce(moment, now()) + make_interval(secs => coalesce(g.delay, 0))) as due
  from unnest({of}) g
),
made as (
  insert into {schema}.job as j (id, seq, run_at, created_at, expires_at, max_attempts, priority, state, queue,
    task, step, key, key_limit, ordered, unique_key, until_claimed, input, options, headers, carried)
  select id, coalesce(place, nextval('{schema}.job_seq')), due, since, since + make_interval(secs => ttl),
         max_attempts, coalesce(priority, 0::smallint),
         case when due > since then 's'::"char" when key is not null then 'b'::"char" else 'r'::"char" end,
         queue, task, coalesce(step, ''), key, case when key is not null then coalesce(key_limit, 1::smallint) end,
         key is not null and coalesce(ordered, false),
         case when period is null then unique_key end, coalesce(until_claimed, false),
         input, options, headers, carried
  from due
  on conflict do nothing
  returning j.id, j.queue, j.priority, j.state
),
notified as (
  {part notify_woken made}
)
