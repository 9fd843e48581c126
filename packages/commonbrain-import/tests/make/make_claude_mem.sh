#!/bin/sh
# Makes samples/claude-mem/claude-mem.sql with claude-mem 13.25.3 under bun 1.4:
#
#     npm pack claude-mem && tar xzf claude-mem-*.tgz && npm install @oven/bun-linux-x64
#     sh make_claude_mem.sh package node_modules/@oven/bun-linux-x64/bin/bun claude-mem.sql
#
# The full-text tables are left out of the dump. It is not part of the tests.
set -e
folder=$(mktemp -d)
CLAUDE_MEM_DATA_DIR="$folder" "$2" "$(dirname "$0")/make_claude_mem.mjs" "$1" "$folder/claude-mem.db"
python3 - "$folder/claude-mem.db" "$3" <<'PYTHON'
import sqlite3
import sys
from pathlib import Path

with sqlite3.connect(sys.argv[1]) as connection:
    master = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    for type_, name, sql in master:
        is_full_text = sql and (sql.startswith("CREATE VIRTUAL") or (type_ == "trigger"))
        if is_full_text:
            connection.execute(f"DROP {type_} {name}")
    Path(sys.argv[2]).write_text("\n".join(connection.iterdump()) + "\n", "utf-8")
PYTHON
rm -rf "$folder"
