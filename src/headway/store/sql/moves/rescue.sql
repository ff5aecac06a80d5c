-- running -> ready | failed | cancelled, for the jobs of workers whose lease ran out.
-- A crash counts: the attempt stays spent, and the last one fails the job (G6). Rows that the late
-- worker is settling at this moment are skipped: if it wins, its claim was still current.
-- Rows of lost workers stay for a while (forget.sql), so that a claim which was under way when the
-- lease ran out is found by the next round.
with dead as (
  select id, name from {schema}.worker where expires_at <= coalesce(%(now)s, now())
),
held as materialized (
  select j.*, dead.name as worker_name
  from dead cross join lateral (
    select ctid as at, id, worker_id, attempt, max_attempts, cancelling
    from {schema}.job where worker_id = dead.id
    limit %(limit)s
    for update skip locked) j
),
gone as (
  delete from {schema}.job
  where ctid = any (array(select at from held where cancelling or attempt >= max_attempts))
  returning *
),
back as (
  update {schema}.job
  set state = 'r', seq = nextval('{schema}.job_seq'), worker_id = null, progress = null,
      run_at = coalesce(%(now)s, now())
  where ctid = any (array(select at from held where not cancelling and attempt < max_attempts))
  returning *
),
ended as (
  select j.*, held.worker_id as lost_by,
         jsonb_build_object('type', 'WorkerLost', 'message',
           'worker ' || held.worker_id || ' (' || held.worker_name || ') stopped without finishing this job') as error
  from (select id, claimed_at, claim, attempt, step, queue, priority, state from gone
        union all
        select id, claimed_at, claim, attempt, step, queue, priority, state from back) j
  join held using (id)
),
kept as (
  insert into {schema}.archive (id, run_at, created_at, started_at, finished_at, expires_at, worker_id,
    claim, attempt, max_attempts, priority, state, queue, task, step, input, options, headers, error)
  select g.id, run_at, created_at, g.claimed_at, coalesce(%(now)s, now()), expires_at, g.worker_id,
    g.claim, g.attempt, max_attempts, g.priority, case when cancelling then 'c'::"char" else 'f'::"char" end,
    g.queue, task, g.step, input, options, headers, e.error
  from gone g join ended e using (id)
),
noted as (
  insert into {schema}.attempt (job_id, started_at, finished_at, worker_id, claim, attempt, step, error)
  select id, claimed_at, coalesce(%(now)s, now()), lost_by, claim, attempt, step, error from ended
),
told as (
  delete from {schema}.awaited a using gone g where a.job_id = g.id returning a.job_id
),
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from back where %(channel)s::text is not null
  group by queue
  union all
  select pg_notify(%(done)s::text, job_id::text) from told where %(done)s::text is not null
)
select (select count(*) from back), (select count(*) from gone), (select count(*) from rung)
