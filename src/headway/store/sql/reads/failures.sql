-- Lists jobs that failed since a moment, or since an earlier reading.
-- * `after` is the snapshot of that reading. Rows that it did not see are new, however late their transaction committed.
-- * Every row has the snapshot to continue from. The first row may have nothing else.
with here as (
  select pg_current_snapshot() as snapshot
),
failed as (
  select a.* from {schema}.attempt a
  where a.outcome = 'f' and %(after)s::text is not null
    and a.failed_in >= pg_snapshot_xmin(%(after)s::pg_snapshot)
    and not pg_visible_in_snapshot(a.failed_in, %(after)s::pg_snapshot)
  union all
  select a.* from {schema}.attempt a
  where a.outcome = 'f' and %(after)s::text is null and a.finished_at >= %(since)s::timestamptz
)
select h.snapshot::text, f.job_id, f.task, f.step, f.queue, f.attempt, f.finished_at, f.error::text,
       coalesce(r.input, j.input)::text, coalesce(r.headers, j.headers)::text
from here h left join failed f on true
left join {schema}.archive r on r.id = f.job_id
left join {schema}.job j on j.id = f.job_id
order by f.finished_at, f.job_id
