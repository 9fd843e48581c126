"""Forgetting: by id or selector, pruned by rule, or erased so that no byte is left."""
