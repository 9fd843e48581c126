#!/bin/sh
# Writes one verified backup of a store in Postgres: a dump, its checksum, and what it counted.
#
#   COMMONBRAIN_OWNER=postgresql://owner@host/commonbrain PGPASSWORD=...  sh backup.sh /backups [DAYS_KEPT]
#
# A password in the URL would be an argument of programs, which every user of the machine can list.
# The dump is of one moment; others go on writing. It appears under its name only when it is whole.
# Its counts are taken in the same moment as the dump, so that a restore can be held against them.
set -eu
umask 077

folder=${1:?"which folder?"}
days=${2:-30}
owner=${COMMONBRAIN_OWNER:?"the URL of the database as its owner"}
stamp=$(date -u +%Y%m%dT%H%M%SZ)
dump="$folder/commonbrain-$stamp.dump"

mkdir -p "$folder"
work=$(mktemp -d "$folder/.unfinished.XXXXXX")
fifo="$work/hold"
trap 'exec 9>&- 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM
# A database that does not answer ends psql before it is written to: an error, not a signal.
trap '' PIPE

# One transaction shows its moment to the dump and to the counts, and is held open until both end.
mkfifo "$fifo"
psql "$owner" --quiet --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 \
    <"$fifo" >"$work/snapshot" &
holder=$!
exec 9>"$fifo"
echo "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_export_snapshot();" >&9
tries=0
while [ ! -s "$work/snapshot" ]; do
    kill -0 "$holder" 2>/dev/null || { echo "The database does not answer." >&2; exit 1; }
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { echo "No snapshot within 30 s." >&2; exit 1; }
    sleep 0.1
done
snapshot=$(head -n 1 "$work/snapshot")

# The usual level 6 takes three times as long and saves a fifth, since vectors hardly compress.
pg_dump "$owner" --format=custom --compress=1 --no-owner --snapshot="$snapshot" --file="$work/dump"
psql "$owner" --quiet --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 \
    --set snapshot="$snapshot" --file="$(dirname "$0")/counts.sql" >"$work/counts"
exec 9>&-
wait "$holder"

pg_restore --list "$work/dump" >/dev/null
mv "$work/dump" "$dump"
mv "$work/counts" "$dump.counts"
(cd "$folder" && sha256sum "$(basename "$dump")" "$(basename "$dump").counts") >"$work/sha256"
mv "$work/sha256" "$dump.sha256"
echo "$dump"

# What is too old goes, once there is a newer one.
find "$folder" -maxdepth 1 -name 'commonbrain-*.dump*' -mtime +"$days" -delete
