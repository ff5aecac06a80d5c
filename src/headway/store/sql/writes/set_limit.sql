-- Sets the limits of a queue, of a task or of each of its keys, from the next claim on. Null removes a limit.
-- * It touches no job: an operator's transaction may stay open (G14). mark_limited.sql marks the jobs that run already.
insert into {schema}.control as c (kind, name, concurrency, rate, burst, changed_at, changed_by)
values (%(kind)s, %(name)s, %(concurrency)s, %(rate)s, %(burst)s, coalesce(%(now)s, now()), %(actor)s)
on conflict (kind, name) do update
set concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst,
    -- A new rate begins with all its tokens.
    rated_in = case when c.rate is not distinct from excluded.rate then c.rated_in else excluded.rated_in end,
    changed_at = excluded.changed_at, changed_by = excluded.changed_by
returning case when %(channel)s::text is not null then pg_notify(%(channel)s::text, 'control')::text end
