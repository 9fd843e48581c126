#!/bin/sh
# Draws every password of compose.yaml once, into files that git and images never see.
# Those that are there already stay: running it again changes nothing.
set -eu
cd "$(dirname "$0")"
# The folder keeps others of this machine out; a container's own user has to read the files.
mkdir -p secrets
chmod 700 secrets
umask 022

drawn() {
    [ -s "secrets/$1" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"secrets/$1"
}
written() {
    [ -s "secrets/$1" ] || printf '%s' "$2" >"secrets/$1"
}

for name in owner_password brain_password redis_password objects_user objects_password grafana_password; do
    drawn "$name"
done
written owner_store "postgresql://owner:$(cat secrets/owner_password)@postgres/commonbrain"
written commonbrain_store "postgresql://brain:$(cat secrets/brain_password)@postgres/commonbrain"
written commonbrain_redis_url "redis://:$(cat secrets/redis_password)@redis:6379/0"
echo "The secrets are in $(pwd)/secrets."
