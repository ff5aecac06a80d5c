-- Returns why a job does not run, or how it ended: one reason to a line (functions/7_explain.sql).
select {schema}.explain(%(id)s::uuid) as reasons
