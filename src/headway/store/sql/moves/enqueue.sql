-- (nothing) -> ready | scheduled. The only statement that makes a job.
-- Repeating it with the same ids makes nothing new while the jobs live (withdraw.sql covers the
-- rest). No lock but the new rows': a caller's transaction may stay open as long as it likes.
-- One notification per queue (with the priorities, so that a worker knows the lanes) and one for
-- all that is due later; none at all where the channel is null.
with given as (
  select g.*, coalesce(%(now)s, now()) as moment,
         coalesce(g.at, coalesce(%(now)s, now()) + make_interval(secs => coalesce(g.delay, 0))) as due
  from jsonb_to_recordset(%(jobs)s::jsonb) as g(
    id uuid, queue text, task text, priority smallint, at timestamptz, delay double precision,
    ttl double precision, max_attempts smallint, input jsonb, options jsonb, headers jsonb)
),
made as (
  insert into {schema}.job (id, run_at, created_at, expires_at, max_attempts, priority, state,
                            queue, task, input, options, headers)
  select id, due, moment, moment + make_interval(secs => ttl), max_attempts, priority,
         case when due > moment then 's'::"char" else 'r'::"char" end,
         queue, task, input, options, headers
  from given
  on conflict (id) do nothing
  returning queue, priority, state
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from made where state = 'r' and %(channel)s::text is not null
  group by queue
  union all
  select pg_notify(%(channel)s::text, 'later')
  from made where state = 's' and %(channel)s::text is not null
  group by state
)
select (select count(*) from made), (select count(*) from rung)
