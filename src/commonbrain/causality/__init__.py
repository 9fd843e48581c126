"""Causes and effects: extraction, traversal and patterns."""
