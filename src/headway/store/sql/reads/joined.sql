-- The keys whose lines were joined behind the admitter's cursor, each with the newest place read and how
-- many joined.
select key, max(seq), count(*) from (
  select key, seq from {schema}.job
  where state = 'b' and seq > %(since)s
  order by seq
  limit %(limit)s) late
group by key
