-- ready -> running.
-- One statement for all lanes of a worker, in the order given: priority is strict within a queue
-- because the join below is a nested loop in that order and the outer limit stops it early.
-- Each lane is read behind the worker's cursor (l.s), so what lies dead at its start is not walked.
-- `for no key update skip locked`: many claimers never wait for each other. By ctid, because a
-- second index descent per job costs more than the rest of the claim; a row that changed between
-- snapshot and lock is simply not claimed this time.
-- A worker whose own lease ran out claims nothing (its jobs would look lost at once). A step that it
-- does not know is left for one that does: l.t are handlers, `task` or `flow/step`; for
-- a consumer in SQL it is null: all.
with lane as (
  select * from jsonb_to_recordset(%(lanes)s::jsonb) as l(q text, p smallint, s bigint, n integer, t text[])
),
pick as materialized (
  select j.ctid
  from lane l cross join lateral (
    select ctid from {schema}.job
    where state = 'r' and queue = l.q and priority = l.p and seq > l.s
      and (l.t is null or case step when '' then task else task || '/' || step end = any (l.t))
      and (expires_at is null or expires_at > coalesce(%(now)s, now()))
    order by seq
    limit l.n
    for no key update skip locked) j
  where (select w.expires_at > coalesce(%(now)s, now()) from {schema}.worker w where w.id = %(worker)s)
    and l.q <> all (array(select name from {schema}.queue where paused_at is not null))
  limit %(room)s
)
update {schema}.job
set state = 'x', claim = claim + 1, attempt = attempt + 1, worker_id = %(worker)s,
    claimed_at = coalesce(%(now)s, now())
where ctid = any (array(select ctid from pick))
returning id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
          input::text, options::text, headers::text, carried::text
