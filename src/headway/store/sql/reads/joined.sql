-- Lists the keys whose lines were joined after the admitter's cursor, each with the newest place read and how many joined.
-- * The condition is that of the index job_blocked, word for word.
select key, max(seq), count(*) from (
  select key, seq from {schema}.job
  where case when state = 'b' then true end and seq > %(since)s
  order by seq
  limit %(limit)s) late
group by key
