#!/bin/sh
# Makes the role that servers and workers open the store as: it owns nothing and bypasses nothing.
set -eu
# psql reads the password itself: every user of the machine can list the arguments of a program.
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 <<'SQL'
\set password `cat /run/secrets/brain_password`
CREATE EXTENSION IF NOT EXISTS vector;
CREATE ROLE brain LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE PASSWORD :'password';
REVOKE ALL ON DATABASE commonbrain FROM PUBLIC;
GRANT CONNECT, TEMPORARY ON DATABASE commonbrain TO brain;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO brain;
SQL
