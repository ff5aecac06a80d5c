-- Stores the limits that the code of these handlers declares.
-- * A limit that a person set stays in force. A limit that the code no longer has is no longer declared.
-- * Only rows that change are written and locked. If a person's open transaction has one of them, this waits half a
--   second. Then the worker goes on and tries again later (G14).
-- * mark_limited.sql counts the jobs that run already, in the same transaction.
with given as materialized (
  select kind, name, case when limits is not null and limits <> 'null' then limits end as limits
  from jsonb_to_recordset(%(limits)s::jsonb) as d(kind text, name text, limits jsonb)
),
declared as materialized (
  select g.*, set_config('lock_timeout', '500ms', true) as lock_timeout
  from given g left join {schema}.control c using (kind, name)
  where g.limits is distinct from c.declared
),
changed as (
  insert into {schema}.control as c (kind, name, concurrency, rate, burst, declared)
  select kind, name, (limits ->> 'concurrency')::integer, (limits ->> 'rate')::double precision,
         (limits ->> 'burst')::integer, limits
  from declared where limits is not null
  order by kind, name
  on conflict (kind, name) do update
  set declared = excluded.declared,
      concurrency = case when c.changed_at is null then excluded.concurrency else c.concurrency end,
      rate = case when c.changed_at is null then excluded.rate else c.rate end,
      burst = case when c.changed_at is null then excluded.burst else c.burst end,
      rated_in = case when c.changed_at is not null or c.rate is not distinct from excluded.rate
                      then c.rated_in else excluded.rated_in end
  where c.declared is distinct from excluded.declared
  returning c.name
),
dropped as (
  update {schema}.control c
  set declared = null,
      concurrency = case when c.changed_at is not null then c.concurrency end,
      rate = case when c.changed_at is not null then c.rate end,
      burst = case when c.changed_at is not null then c.burst end
  from declared d
  where d.limits is null and c.kind = d.kind and c.name = d.name and c.declared is not null
  returning c.name
)
select name, case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end
from (select name from changed union all select name from dropped) news
