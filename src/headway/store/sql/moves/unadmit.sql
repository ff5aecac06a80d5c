-- ready -> blocked: who was let in and cannot run now, because its queue or task is shut, gives its room to others
-- of its key who can; only behind lock_keys.sql, and before admit.sql. It stands behind those who were in line when
-- it was let in. Ordered jobs give way to nobody. A row that someone else has locked is being claimed: it stays.
with able as materialized (
  select w.key from (select distinct key from jsonb_array_elements_text(%(keys)s::jsonb) as given(key)) w
  where (select {schema}.anything_shut(coalesce(%(now)s, now()))) and not {schema}.paused('key', w.key, coalesce(%(now)s, now()))
    and exists (select 1 from {schema}.able_in_line(w.key, 1, coalesce(%(now)s, now())))
),
held_up as materialized (
  select j.at from able cross join lateral (
    select ctid as at from {schema}.job
    -- Hidden from the planner, which in a quiet hour would take the index of all that is ready.
    where key = able.key and holds and case when state = 'r' then true end and not ordered
      and {schema}.shut(queue, task, step, coalesce(%(now)s, now()))
    for no key update skip locked) j
),
back as (
  update {schema}.job set state = 'b', holds = false
  where ctid = any (array(select at from held_up))
  returning id
)
select count(*) from back
