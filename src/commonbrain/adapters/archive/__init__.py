"""Commonbrain's own format: JSON Lines, one record a line, nothing lost either way.

The first line names the format and its version, the last counts the lines between, so that a file
that was cut short is known for it. Each line between is an object of one key that says what it is:

    {"memory": {"id": "mem_...", "kind": "fact", "headline": "...", "body": "...", ...}}

Ids are written as they are shown, times as ISO 8601, and what is as usual is left out.
"""
