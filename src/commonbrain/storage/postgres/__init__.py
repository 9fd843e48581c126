"""The Postgres engine."""
