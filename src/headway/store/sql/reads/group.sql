-- Returns what a follow-up waits for: its members by state (null: not kept), how many may live, and since when it may run.
select f.all_but, f.gathered_at, cardinality(f.members), found.state, count(m.id)
from {schema}.fan_in f
left join lateral unnest(f.members) as m(id) on true
left join lateral (
  select state from {schema}.job j where j.id = m.id
  union all
  select state from {schema}.archive a where a.id = m.id
) found on true
where f.job_id = %(id)s::uuid
group by f.job_id, found.state
