-- ready -> blocked: a job that was admitted and cannot run now gives its room to other jobs of its key that can. It runs
-- after lock_keys.sql and before admit.sql, in the same transaction.
-- * A job cannot run while its queue or task is shut.
-- * It goes back into the line after the jobs that were in line when it was admitted.
-- * Ordered jobs keep their room.
-- * Locked rows are skipped: somebody is claiming them.
with able as materialized (
  select w.key from (select distinct key from jsonb_array_elements_text(%(keys)s::jsonb) as given(key)) w
  where (select {schema}.anything_shut(coalesce(%(now)s, now()))) and not {schema}.paused('key', w.key, coalesce(%(now)s, now()))
    and exists (select 1 from {schema}.able_in_line(w.key, 1, coalesce(%(now)s, now())))
),
held_up as materialized (
  select j.at from able cross join lateral (
    select ctid as at from {schema}.job
    -- The `case` hides the state from the planner, which would take the index of all ready jobs while they are few.
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
