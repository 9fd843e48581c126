-- How many rows each table of the store has, at the moment of a snapshot where one is named.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
\if :{?snapshot}
SET TRANSACTION SNAPSHOT :'snapshot';
\endif
-- A partition's rows are its parent's.
SELECT format('SELECT %L, count(*) FROM %s', c.relname, c.oid::regclass)
FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY c.relname
\gexec
COMMIT;
