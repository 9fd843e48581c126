"""Queries by topic, the same on every engine."""
