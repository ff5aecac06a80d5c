-- Removes schedules that code declared and that this app's code does not declare (any more): those of this app's
-- name; of apps without a name those whose task it knows. With `stale` only what no worker that lives declares. What
-- was put at run time, and what another app declared, stays.
delete from {schema}.schedule s
where s.declared and s.owner = %(owner)s::text
  and (s.owner <> '' or s.task in (select jsonb_array_elements_text(%(tasks)s::jsonb)))
  and s.name not in (select jsonb_array_elements_text(%(names)s::jsonb))
  and (not %(stale)s::boolean or not exists (
    select 1 from {schema}.worker w
    where w.expires_at > coalesce(%(now)s, now()) and w.schedules @> to_jsonb(s.name)))
returning s.name
