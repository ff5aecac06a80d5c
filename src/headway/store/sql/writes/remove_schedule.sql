-- Removes a schedule; the jobs that it made stay.
delete from {schema}.schedule where name = %(name)s returning name
