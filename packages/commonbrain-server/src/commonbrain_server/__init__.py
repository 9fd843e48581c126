"""Commonbrain for a team: REST and MCP over HTTP, tenants, keys, login, Postgres."""
