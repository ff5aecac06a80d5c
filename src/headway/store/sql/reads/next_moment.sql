-- Returns the next moment from which a waiting job may run, null if none waits for a moment. For tests that travel in time.
-- * Jobs that are scheduled, tokens of a rate, and pauses that end by themselves; schedules only with `schedules`.
-- * A token may be earned a rounding error later than computed, so its moment is a millisecond later.
-- * Tokens and pauses count while any job waits: at worst the moment is one at which nothing runs.
with waiting as materialized (
  select exists (select 1 from {schema}.job where state in ('r', 'b')) as any
),
moments as (
  select min(run_at) as at from {schema}.job where state = 's'
  union all
  select min(next_at) from {schema}.schedule where %(schedules)s and paused_at is null
  union all
  select c.paused_until from {schema}.control c, waiting w where w.any and c.paused_at is not null
  union all
  select b.spent_until - make_interval(secs => (c.burst - 1) / c.rate) + interval '1 millisecond'
  from waiting w, {schema}.control c
  join {schema}.bucket b on b.key = {schema}.bucket_of(c.kind, c.name) and b.rated_in = c.rated_in
  where w.any and c.rate is not null
  union all
  select b.spent_until - make_interval(secs => (c.burst - 1) / c.rate) + interval '1 millisecond'
  from {schema}.job j
  join {schema}.control c on c.kind = 'keys' and c.name = {part handler j}
  join {schema}.bucket b on b.key = j.key and b.rated_in = c.rated_in
  where j.state in ('r', 'b') and c.rate is not null
)
select min(at) from moments where at > coalesce(%(now)s, now())
