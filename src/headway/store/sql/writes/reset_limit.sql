-- Forgets what a person said: the limits are those of the code again, or none. A row that says nothing
-- goes. What runs already is counted by mark_limited.sql, in the same transaction.
with old as (
  select kind, name, declared, paused_at, rate from {schema}.control
  where kind = %(kind)s and name = %(name)s and changed_at is not null
  for update
),
back as (
  update {schema}.control c
  set concurrency = (old.declared ->> 'concurrency')::integer, rate = (old.declared ->> 'rate')::double precision,
      burst = (old.declared ->> 'burst')::integer, spent_until = null, changed_at = null, changed_by = null
  from old where c.kind = old.kind and c.name = old.name and (old.declared is not null or old.paused_at is not null)
),
gone as (
  delete from {schema}.control c using old
  where c.kind = old.kind and c.name = old.name and old.declared is null and old.paused_at is null
),
emptied as (
  -- Moments that another rate has spent say nothing of this one. In the order of admit.sql.
  delete from {schema}.bucket where key in (
    select b.key from {schema}.bucket b join old k on k.kind = 'keys' and starts_with(b.key, k.name || '/')
    where k.rate is distinct from (k.declared ->> 'rate')::double precision
    order by b.key for update of b)
  returning 1
)
select case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end from old
