-- Returns a page of the members of a follow-up's group, in the order of the call. One that is not kept has only its id.
select m.place, m.id, found.task, found.step, found.state, found.result, found.error
from {schema}.fan_in f
cross join lateral unnest(f.members[%(after)s::integer + 1 : %(after)s::integer + %(limit)s::integer])
  with ordinality as m(id, place)
left join lateral (
  select task, step, state, null as result, ({part last_error j})::text as error from {schema}.job j where j.id = m.id
  union all
  select task, step, state, result::text, error::text from {schema}.archive a where a.id = m.id
) found on true
where f.job_id = %(id)s::uuid
order by m.place
