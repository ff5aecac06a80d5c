-- Returns whether this server can be used, and its clock.
select pg_is_in_recovery() as in_recovery, current_setting('server_version') as version, now() as now
