-- Removes a schedule. The jobs that it has made stay.
delete from {schema}.schedule where name = %(name)s returning name
