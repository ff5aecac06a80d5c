-- Identifies this database: its name, and the server by the moment of its start.
-- * Every role may read that moment, and no two servers share it.
-- * The address is for people: it differs between a socket and a network.
select current_database()::text as database, extract(epoch from pg_postmaster_start_time())::text as server,
       coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket') as address
