-- Makes groups: jobs, and a follow-up that waits until all of them, or all but some, have ended.

-- Make the jobs of a group and its follow-up. Return those that were not made, as enqueue_jobs does: the job that has
-- their unique key is a member instead.
-- * The row of fan_in decides whether this is a repetition: then nothing is made, and the answer is the same.
-- * It locks only rows that it makes itself. Their ends are awaited by random members (moves/gather.sql).
-- * The follow-up must be new: otherwise a producer could let any job wait (G16).
create or replace function {schema}.enqueue_group(
  jobs jsonb, follow_up jsonb, all_but integer, channel text, moment timestamptz)
returns table (asked uuid, id uuid) language plpgsql volatile as $$
#variable_conflict use_column
declare
  _id uuid := (follow_up ->> 'id')::uuid;
  _all_but integer := all_but;
  _made_at timestamptz := coalesce(moment, now());
  _waits boolean := jsonb_array_length(jobs) > all_but;
  _taken boolean;
begin
  if follow_up is null then
    return;                                     -- the connection leads elsewhere (writes/enqueue_group_in.sql)
  end if;
  if jsonb_typeof(jobs) <> 'array' or jsonb_array_length(jobs) > 10000 or all_but not between 0 and 10000
     or all_but is null or _id is null or follow_up ->> 'unique_key' is not null then
    raise exception using errcode = 'invalid_parameter_value',
      message = 'a group that cannot be stored: over 10000 jobs, or a follow-up without an id or with a unique key',
      hint = 'Make groups with hw.group, which says what is wrong.';
  end if;
  insert into {schema}.fan_in (job_id, members, witnesses, all_but, made_at, look_at)
  select _id, '{}', '{}', _all_but, _made_at, _made_at + interval '1 day'
  where not exists (select 1 from {schema}.job j where j.id = _id)
    and not exists (select 1 from {schema}.archive a where a.id = _id)
    and not exists (select 1 from {schema}.unkept u where u.id = _id)
  on conflict do nothing;
  if not found then
    return query
    select (given.job ->> 'id')::uuid, f.members[given.place]
    from {schema}.fan_in f, jsonb_array_elements(jobs) with ordinality given(job, place)
    where f.job_id = _id and f.members[given.place] <> (given.job ->> 'id')::uuid;
    return;
  end if;
  return query
  with taken as materialized (
    select t.asked, t.id from {schema}.enqueue_jobs(jobs, channel, moment) t
  ),
  joined as (
    update {schema}.fan_in f
    set members = coalesce((
      select array_agg(coalesce(t.id, (given.job ->> 'id')::uuid) order by given.place)
      from jsonb_array_elements(jobs) with ordinality given(job, place)
      left join taken t on t.asked = (given.job ->> 'id')::uuid), '{}')
    where f.job_id = _id
  )
  select t.asked, t.id from taken t;
  _taken := found;
  perform {schema}.enqueue_jobs(jsonb_build_array(follow_up), case when not _waits then channel end, moment);
  if not _waits then
    update {schema}.fan_in f set gathered_at = _made_at where f.job_id = _id;
    return;
  end if;
  update {schema}.job j set state = 'w' where j.id = _id and j.claim = 0;
  update {schema}.fan_in f
  set witnesses = array(
    select (given.job ->> 'id')::uuid from jsonb_array_elements(jobs) given(job) order by random() limit 2 * _all_but + 2)
  where f.job_id = _id;
  insert into {schema}.awaited (job_id, follow_up, since)
  select witness, _id, _made_at from {schema}.fan_in f, unnest(f.witnesses) witness
  where f.job_id = _id and witness = any (f.members)
  on conflict do nothing;
  if _taken and channel is not null then
    perform pg_notify(channel, 'gather ' || _id);  -- that member may have ended already
  end if;
end $$;
