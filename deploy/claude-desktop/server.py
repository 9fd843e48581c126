# ruff: noqa: INP001 a program of its own
"""Starts the MCP server of the installed package."""

from commonbrain.__main__ import main

if __name__ == "__main__":
    main()
