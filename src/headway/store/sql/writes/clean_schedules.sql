-- Removes schedules that code declared earlier and that this app's code no longer declares.
-- * It removes schedules of this app's name. For apps without a name, it removes those whose task the app knows.
-- * With `stale`, it removes only schedules that no live worker declares.
-- * Schedules put at run time, and those that another app declared, stay.
delete from {schema}.schedule s
where s.declared and s.owner = %(owner)s::text
  and (s.owner <> '' or s.task in (select jsonb_array_elements_text(%(tasks)s::jsonb)))
  and s.name not in (select jsonb_array_elements_text(%(names)s::jsonb))
  and (not %(stale)s::boolean or not exists (
    select 1 from {schema}.worker w
    where w.expires_at > coalesce(%(now)s, now()) and w.schedules @> to_jsonb(s.name)))
returning s.name
