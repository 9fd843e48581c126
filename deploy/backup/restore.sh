#!/bin/sh
# Puts a backup into an empty database and proves that it is whole; never into one that holds a store.
#
#   COMMONBRAIN_OWNER=postgresql://owner@host/scratch PGPASSWORD=...  sh restore.sh FILE.dump
#
# Verified are the checksum, the count of every table against what was counted at the moment of the
# dump, and, where COMMONBRAIN_STORE names the database as the program's role, `brain doctor`.
set -eu

dump=${1:?"which backup?"}
owner=${COMMONBRAIN_OWNER:?"the URL of an empty database as its owner"}
here=$(cd "$(dirname "$0")" && pwd)

(cd "$(dirname "$dump")" && sha256sum --check --quiet "$(basename "$dump").sha256") || {
    echo "The backup is not what was written: nothing was restored." >&2
    exit 1
}
held=$(psql "$owner" --quiet --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 --command \
    "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition")
[ "$held" = 0 ] || {
    echo "The database has $held tables: make an empty one and restore into that." >&2
    exit 1
}

counts=$(mktemp)
entries=$(mktemp)
trap 'rm -f "$counts" "$entries"' EXIT INT TERM
# Only a superuser may comment on an extension, and the owner need not be one.
# A dump of a distributed store has every row; where they were is not restored.
pg_restore --list "$dump" |
    grep -v -e ' COMMENT - EXTENSION ' -e ' EXTENSION - citus' -e ' pg_catalog pg_dist_' >"$entries"
# All or nothing.
pg_restore --dbname="$owner" --use-list="$entries" --no-owner --single-transaction \
    --exit-on-error "$dump"
# The owner may skip the tables of the server itself without a warning each.
psql "$owner" --quiet --no-psqlrc --command "SET client_min_messages = error" --command ANALYZE

psql "$owner" --quiet --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 \
    --file="$here/counts.sql" >"$counts"
diff "$dump.counts" "$counts" || {
    echo "The restored tables do not hold what was dumped." >&2
    exit 1
}
if [ -n "${COMMONBRAIN_STORE:-}" ]; then
    brain doctor
fi
echo "Restored and verified: $(wc -l <"$counts") tables."
