-- Ends the pause of a queue, a task or a key, and notifies workers.
-- * `shut` is false if the pause was over already.
-- * A row without a limit or a declaration is deleted.
with old as (
  select kind, name, coalesce(paused_until > coalesce(%(now)s, now()), true) as shut,
         num_nonnulls(concurrency, rate, declared, changed_at) = 0 as bare
  from {schema}.control
  where kind = %(kind)s and name = %(name)s and paused_at is not null
  for update                                    -- a limit that is being set is seen, and stays
),
opened as (
  update {schema}.control c
  set paused_at = null, paused_until = null, paused_by = null, pause_reason = null
  from old where c.kind = old.kind and c.name = old.name and not old.bare
  returning old.shut
),
gone as (
  -- The row has nothing else.
  delete from {schema}.control c using old where c.kind = old.kind and c.name = old.name and old.bare
  returning old.shut
)
select shut, case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end
from (select shut from opened union all select shut from gone) news
