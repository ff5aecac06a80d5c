-- Lists waiting jobs that somebody asked to stop.
-- * They were running, or locked, at the time of the request (cancel.sql).
select r.job_id::text from {schema}.stop_request r join {schema}.job j on j.id = r.job_id
where j.state in ('r', 's', 'b', 'w')
order by r.job_id
limit %(limit)s
