"""The SQL store that SQLite and Postgres share."""
