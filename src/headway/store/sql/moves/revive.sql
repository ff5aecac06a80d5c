-- failed | cancelled | expired -> ready | blocked, and scheduled -> the same: tried again on request.
-- * The job comes back whole, at the step where it was, with fresh attempts. Or it comes back at `step`, an earlier step
--   of its flow, with the input and the concurrency key that it had there.
-- * Its claim number goes on (I3), and its past attempts stay in `attempt`. Its time to live does not apply again.
-- * It loses its unique key if another job has it by now. If another session is taking that key at this moment, the
--   statement fails and changes nothing.
with earlier as (
  select step, input, carried, key, key_limit, coalesce(ordered, false) as ordered from {schema}.attempt
  where job_id = %(id)s::uuid and step = %(step)s::text and input is not null
  order by finished_at desc, claim desc limit 1
),
back as (
  delete from {schema}.archive
  where id = %(id)s::uuid and state in ('f', 'c', 'e')
    and (%(step)s::text is null or step = %(step)s::text or exists (select 1 from earlier))
  returning *
),
made as (
  insert into {schema}.job (id, run_at, created_at, claim, max_attempts, priority, state, queue, task, step,
    input, options, headers, key, key_limit, ordered, unique_key, until_claimed, carried)
  select id, coalesce(%(now)s, now()), created_at, claim,
         coalesce(t.max_attempts, b.max_attempts), coalesce(t.priority, b.priority),
         case when case when gone_back then e.key else b.key end is not null then 'b'::"char" else 'r'::"char" end,
         coalesce(t.queue, b.queue), task,
         case when gone_back then e.step else b.step end,
         case when gone_back then e.input else b.input end, options, headers,
         case when gone_back then e.key else b.key end, case when gone_back then e.key_limit else b.key_limit end,
         case when gone_back then e.ordered else b.ordered end,
         case when not exists (select 1 from {schema}.job o where o.task = b.task
                               and o.unique_key = b.unique_key
                               and (not o.until_claimed or o.claim = 0))
              then unique_key end,
         until_claimed,
         case when gone_back then e.carried else b.carried end
  from (select *, coalesce(step <> %(step)s::text, false) as gone_back from back) b
  left join earlier e on b.gone_back
  left join {schema}.task t on b.gone_back and t.name = b.task || '/' || e.step
  returning queue, priority, state
),
answered as (
  -- A request to stop was meant for the job before it ended.
  delete from {schema}.stop_request r using back b where r.job_id = b.id
),
hurried as (
  update {schema}.job
  set state = case when key is null or holds then 'r'::"char" else 'b'::"char" end,
      run_at = coalesce(%(now)s, now()), seq = nextval('{schema}.job_seq')
  where id = %(id)s::uuid and state = 's' and %(step)s::text is null
  returning queue, priority, state
),
woken as (
  select * from made union all select * from hurried
),
notified as (
  {part notify_woken woken}
)
select (select count(*) from notified)::text as notified from woken
