-- Which database this is: its name, and the server by the moment it started, which every role may read and
-- no two servers share. The address is for people: it differs by the way in (a socket, a network).
select current_database()::text as database, extract(epoch from pg_postmaster_start_time())::text as server,
       coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket') as address
