"""Invalidation: dependants of a memory that no longer holds need review."""
