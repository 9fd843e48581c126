#!/bin/sh
# Makes the role that servers and workers open the store as: it owns nothing and bypasses nothing.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 \
    --set password="$(cat /run/secrets/brain_password)" <<'SQL'
CREATE EXTENSION IF NOT EXISTS vector;
CREATE ROLE brain LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE PASSWORD :'password';
REVOKE ALL ON DATABASE commonbrain FROM PUBLIC;
GRANT CONNECT, TEMPORARY ON DATABASE commonbrain TO brain;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO brain;
SQL
