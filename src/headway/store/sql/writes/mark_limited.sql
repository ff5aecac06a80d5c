-- Marks running jobs that count under a limit of their queue or task, and do not have the mark yet.
-- * A worker marks its own jobs (`worker`) when it is notified of a new limit. The leader marks all (null) periodically.
-- * Locked rows are skipped: somebody is settling them, or the leader marks them later (G14).
with found as materialized (
  select j.ctid as at from {schema}.job j
  where j.worker_id is not null and not j.limited and coalesce(j.worker_id = %(worker)s::bigint, %(worker)s::bigint is null)
    and exists (
      select 1 from {schema}.control c
      where c.concurrency is not null
        and (c.kind = 'queue' and j.queue = c.name
             or c.kind = 'task' and j.task = split_part(c.name, '/', 1) and j.step = split_part(c.name, '/', 2)))
  for no key update of j skip locked
),
marked as (
  update {schema}.job set limited = true where ctid = any (array(select at from found))
  returning 1
)
select count(*) from marked
