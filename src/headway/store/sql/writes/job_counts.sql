-- Stores the number of live jobs by queue and state (table census), in place of the last count.
-- * Only the leader writes here, so no two writers meet. Rows are written in the order of their keys.
with counted as (
  select * from jsonb_to_recordset(%(counts)s::jsonb) as c(queue text, state "char", count bigint)
),
gone as (
  delete from {schema}.census c
  where not exists (select 1 from counted k where k.queue = c.queue and k.state = c.state)
),
kept as (
  insert into {schema}.census as c (queue, state, count, taken_at)
  select queue, state, count, coalesce(%(now)s, now()) from counted order by queue, state
  on conflict (queue, state) do update set count = excluded.count, taken_at = excluded.taken_at
  returning queue
)
select count(*) from kept
