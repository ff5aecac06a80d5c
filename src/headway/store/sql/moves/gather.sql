-- waiting -> ready | scheduled | blocked, for follow-ups of these ids whose group has ended, but for `all_but` members.
-- * A member has ended if it is not in `job`. Nothing counts them, so a member that is retried is waited for again.
-- * Of the members that live, it notes some as witnesses: twice as many as may live at the end, and two. Their ends notify
--   the leader. They are drawn at random, so about half of the others end before them, in whatever order jobs end: a
--   group is looked at a few times, however many members it has.
-- * The group's row is locked first, then the follow-up. Both skip locked rows: the next look finds them (G14).
-- * A group whose follow-up waits no longer is closed. So is one whose follow-up this makes ready: exactly once.
-- * The first column says how many were made ready.
with looked as materialized (
  select job_id, ctid as at, members, all_but from {schema}.fan_in
  where job_id = any (array(select id::uuid from jsonb_array_elements_text(%(ids)s::jsonb) as given(id)))
    and gathered_at is null
  order by job_id
  for no key update skip locked
),
found as materialized (
  select l.job_id, l.at, l.all_but,
         array(select j.id from {schema}.job j where j.id = any (l.members) order by random() limit 2 * l.all_but + 2) as live
  from looked l
),
held as materialized (
  select j.ctid as at from {schema}.job j
  where j.id = any (array(select job_id from found where cardinality(live) <= all_but)) and j.state = 'w'
  order by j.id
  for no key update skip locked
),
up as (
  update {schema}.job
  set state = case when run_at > coalesce(%(now)s, now()) then 's'::"char" when key is not null then 'b'::"char" else 'r'::"char" end,
      seq = nextval('{schema}.job_seq')
  where ctid = any (array(select at from held))
  returning id, queue, priority, state
),
closed as (
  select f.at from found f
  where exists (select 1 from up where up.id = f.job_id)
     or not exists (select 1 from {schema}.job j where j.id = f.job_id and j.state = 'w')
),
gathered as (
  update {schema}.fan_in set gathered_at = coalesce(%(now)s, now()) where ctid = any (array(select at from closed))
),
witnessed as (
  update {schema}.fan_in i set witnesses = f.live from found f
  where i.ctid = f.at and cardinality(f.live) > f.all_but and f.at <> all (array(select at from closed))
  returning i.job_id, i.witnesses
),
awaiting as (
  insert into {schema}.awaited (job_id, follow_up, since)
  select witness, w.job_id, coalesce(%(now)s, now()) from witnessed w, unnest(w.witnesses) as live(witness)
  order by witness
  on conflict do nothing
),
notified as (
  {part notify_woken up}
)
select (select count(*) from up), (select count(*) from notified)
