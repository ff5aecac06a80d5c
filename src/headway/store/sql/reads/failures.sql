-- Jobs that failed since a moment, or since another reading of this: `after` is the snapshot that one had,
-- and what its snapshot did not show is new, however long its transaction took to commit. With neither
-- there is nothing to show but the snapshot to go on from, which is in every row (the first has no more).
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
