-- Removes the limits that a person set: those of the code apply again, or none.
-- * A row without a limit, a declaration or a pause is deleted.
-- * It touches no job. mark_limited.sql marks the jobs that run already.
with old as (
  select kind, name, declared, paused_at,
         rate is not distinct from (declared ->> 'rate')::double precision as same_rate
  from {schema}.control
  where kind = %(kind)s and name = %(name)s and changed_at is not null
  for update
),
back as (
  update {schema}.control c
  set concurrency = (old.declared ->> 'concurrency')::integer, rate = (old.declared ->> 'rate')::double precision,
      burst = (old.declared ->> 'burst')::integer, changed_at = null, changed_by = null,
      -- A new rate begins with all its tokens.
      rated_in = case when old.same_rate then c.rated_in else pg_current_xact_id() end
  from old where c.kind = old.kind and c.name = old.name and (old.declared is not null or old.paused_at is not null)
),
gone as (
  delete from {schema}.control c using old
  where c.kind = old.kind and c.name = old.name and old.declared is null and old.paused_at is null
)
select case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end from old
