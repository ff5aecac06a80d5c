-- ready -> running, while no pause and no limit is in force: as claim.sql, without everything about those.
-- * If one is in force it claims nothing, and answers with a row without an id. The worker then uses claim.sql.
-- * Half of the time of a claim of one job is spent on the pauses and limits that claim.sql looks for.
-- * Lanes, cursors, locks, the lease and the limit of bytes are those of claim.sql.
with open_to_all as materialized (
  select not exists (
    select 1 from {schema}.control
    where concurrency is not null or rate is not null
       or paused_at is not null and coalesce(paused_until > coalesce(%(now)s, statement_timestamp()), true)) as yes
),
pick as materialized (
  select j.ctid, j.weight
  from jsonb_to_recordset(%(shares)s::jsonb) as s(queue text, most integer, lines jsonb)
  cross join lateral (
    select j.ctid, j.weight
    from jsonb_to_recordset(s.lines) as l(priority smallint, cursor bigint, most integer, handlers text[])
    cross join lateral (
      select ctid, pg_column_size(input) as weight from {schema}.job
      where state = 'r' and queue = s.queue and priority = l.priority and seq > l.cursor
        and {part handler} = any (l.handlers)
        and (expires_at is null or expires_at > coalesce(%(now)s, statement_timestamp()))
      order by seq
      limit l.most
      for no key update skip locked) j
    limit s.most) j
  where (select w.expires_at > coalesce(%(now)s, statement_timestamp()) from {schema}.worker w where w.id = %(worker)s)
    and (select yes from open_to_all)
),
{part light},
claimed as (
  update {schema}.job
  set state = 'x', claim = {part next_claim}, attempt = attempt + 1, worker_id = %(worker)s,
      claimed_at = coalesce(%(now)s, statement_timestamp()), limited = false, rated_in = null
  where ctid = any (array(select ctid from light))
  returning id::text, claim, task, step, attempt, max_attempts, queue, priority, seq, key,
            input::text, options::text, headers::text, carried::text, crashes, {part opens true} as opens
)
select *, (select count(*) from light) < (select count(*) from pick) as cut from claimed
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from open_to_all where not yes
order by priority desc, seq
