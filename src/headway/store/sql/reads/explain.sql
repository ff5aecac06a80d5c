-- Why a job does not run, or what became of it: one reason to a line (functions/7_explain.sql).
select {schema}.explain(%(id)s::uuid) as reasons
