#!/bin/sh
# Makes samples/basic-memory with basic-memory 0.24.1 itself (needs Python 3.12):
#
#     pip install basic-memory==0.24.1
#     sh make_basic_memory.sh PATH/TO/basic-memory samples/basic-memory
#
# It is not part of the tests.
set -e
home=$(mktemp -d)
export HOME="$home" BASIC_MEMORY_HOME="$home/basic-memory" BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED=false
mkdir -p "$home/basic-memory"
note() { "$1" tool write-note --title "$2" --folder "$3" ${4:+--tags "$4"} --content "$5" >/dev/null; }
note "$1" "Harbour" "projects" "port,booking" "# Harbour

The harbour service books berths for ships of all sizes.

## Observations
- [decision] Berths are locked by row #database (since March)
- [port] The staging port is 8080
- [rule] Never book a berth twice for one night
- [ ] Ask the pilots about the crane

## Relations
- depends_on [[Tide Tables]]
- replaces [[Quay]] (after the outage)
- relates_to [[Ann]]"
note "$1" "Tide Tables" "data" "data" "# Tide Tables

Tides are computed from the harmonic constants, see [[Harbour]].

## Observations
- [fact] A leap day once had no row #gotcha"
note "$1" "Ann" "people" "" "Ann lives in Bergen and prefers long answers."
cp -R "$home/basic-memory/." "$2/"
rm -rf "$home"
