-- Makes a group on a connection of the caller's. Makes none if that connection leads to another database than the app's.
-- * The first three columns say where it leads, as in reads/place.sql.
-- * At least one row comes back.
select here.*, e.asked::text, e.id::text
from (
  select current_database()::text as database, extract(epoch from pg_postmaster_start_time())::text as server,
         coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket') as address
) here
left join lateral {schema}.enqueue_group(
  %(jobs)s::jsonb,
  case when here.database = %(database)s::text and here.server = %(server)s::text then %(follow_up)s::jsonb end,
  %(all_but)s::integer, %(channel)s::text, %(now)s::timestamptz) e on true
