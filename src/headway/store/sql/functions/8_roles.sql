-- Grants the rights of each role.
-- * PUBLIC has no right in the schema but to pure functions.
-- * Roles are made only on request, because they belong to the whole cluster. Once they may use this schema, they get the
--   rights to new functions without a request.
-- * It runs after every change of functions, so that new ones have their rights.
create or replace function {schema}.grant_rights(make_roles boolean) returns void
language plpgsql volatile as $$
declare
  kinds constant text[] := array['producer', 'worker', 'reader', 'operator'];
  kind text;
  given record;
begin
  revoke execute on all functions in schema {schema} from public;
  -- Pure, and part of the views.
  grant execute on function {schema}.label, {schema}.keys_of, {schema}.in_words to public;
  -- A worker that makes partitions need not own the tables. A producer needs no right to them.
  alter function {schema}.empty_nets security definer set search_path = pg_catalog, pg_temp;
  alter function {schema}.add_partitions security definer set search_path = pg_catalog, pg_temp;
  alter function {schema}.drop_partitions security definer set search_path = pg_catalog, pg_temp;
  alter function {schema}.withdraw_jobs security definer set search_path = pg_catalog, pg_temp;
  alter function {schema}.enqueue_jobs security definer set search_path = pg_catalog, pg_temp;
  alter function {schema}.enqueue_group security definer set search_path = pg_catalog, pg_temp;

  foreach kind in array kinds loop
    if make_roles and not exists (select 1 from pg_catalog.pg_roles where rolname = '{plain}_' || kind) then
      begin
        execute format('create role %I nologin', '{plain}_' || kind);
      exception when duplicate_object or unique_violation then
        null;                                   -- another database of the cluster made it at this moment
      end;
    end if;
  end loop;
  if not make_roles and not exists (
      select 1 from pg_catalog.pg_namespace n, aclexplode(n.nspacl) a join pg_catalog.pg_roles r on r.oid = a.grantee
      where n.nspname = '{plain}' and r.rolname = '{plain}_worker') then
    return;
  end if;

  grant usage on schema {schema} to "{plain}_producer", "{plain}_worker", "{plain}_reader", "{plain}_operator";
  -- Every process checks the version of the schema.
  grant select (version, suits) on {schema}.migration to "{plain}_producer", "{plain}_reader", "{plain}_operator";

  grant select, insert on {schema}.inbox to "{plain}_producer";  -- it is always empty; for `returning id`
  grant execute on function {schema}.enqueue, {schema}.enqueue_many, {schema}.enqueue_jobs, {schema}.enqueue_group,
    {schema}.withdraw_jobs
    to "{plain}_producer";
  -- Python's producers insert plain jobs into the view. Each row draws its place in the lane.
  grant insert (id, max_attempts, priority, queue, task, step, input) on {schema}.new_jobs to "{plain}_producer";
  grant usage on sequence {schema}.job_seq to "{plain}_producer";

  grant select on {schema}.jobs, {schema}.queues, {schema}.controls to "{plain}_reader", "{plain}_operator";
  grant execute on function {schema}.live_jobs, {schema}.metrics, {schema}.measure to "{plain}_reader", "{plain}_operator";
  -- The statements of Python's readers (sql/reads) read the tables. With `select` alone they cannot write or lock a row.
  grant select on {schema}.job, {schema}.archive, {schema}.attempt, {schema}.worker, {schema}.leader, {schema}.task,
    {schema}.control, {schema}.schedule, {schema}.stop_request, {schema}.drain_request, {schema}.fan_in
    to "{plain}_reader", "{plain}_operator";
  grant execute on function {schema}.reader_await to "{plain}_reader", "{plain}_operator";
  grant execute on function {schema}.explain to "{plain}_reader", "{plain}_operator";
  grant execute on function {schema}.purge, {schema}.move to "{plain}_operator";
  grant execute on function {schema}.retry, {schema}.cancel, {schema}.edit, {schema}.pause, {schema}.resume
    to "{plain}_operator";

  grant execute on function {schema}.drain, {schema}.set_limit, {schema}.reset_limit to "{plain}_operator";
  grant select on {schema}.schedules to "{plain}_reader", "{plain}_operator";
  grant execute on function {schema}.pause_schedule, {schema}.resume_schedule, {schema}.run_schedule
    to "{plain}_operator";
  -- Python's operators (sql/calls). Running a schedule withdraws its job if a repetition made it a second time.
  for given in
    select p.oid::regprocedure as name from pg_catalog.pg_proc p
    where p.pronamespace = '{schema}'::regnamespace and starts_with(p.proname, 'operator_')
  loop
    execute format('grant execute on function %s to "{plain}_operator"', given.name);
  end loop;
  grant execute on function {schema}.withdraw_jobs to "{plain}_operator";

  -- Partitions are reached through their parents and need no rights of their own.
  for given in
    select c.oid::regclass as name, c.relname in ('migration', 'definition') as only_read
    from pg_catalog.pg_class c
    where c.relnamespace = '{schema}'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
  loop
    execute format('grant %s on %s to "{plain}_worker"',
      case when given.only_read then 'select' else 'select, insert, update, delete' end, given.name);
  end loop;
  grant usage, select, update on all sequences in schema {schema} to "{plain}_worker";
  grant execute on all functions in schema {schema} to "{plain}_worker";
  revoke execute on function {schema}.grant_rights from "{plain}_worker";
end $$;
