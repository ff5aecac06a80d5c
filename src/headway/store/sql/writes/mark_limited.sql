-- Has running jobs count under a limit of their queue or task that they do not know of yet.
-- * A worker marks its own jobs (`worker`) when it hears of a new limit, the leader marks all (null) now and then.
-- * Rows that somebody has locked are skipped: they are being settled, or the leader marks them later (G14).
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
