-- Jobs that wait although somebody asked them to stop: they were running, or locked, when they were asked.
select r.job_id::text from {schema}.stop_request r join {schema}.job j on j.id = r.job_id
where j.state in ('r', 's', 'b', 'w')
order by r.job_id
limit %(limit)s
