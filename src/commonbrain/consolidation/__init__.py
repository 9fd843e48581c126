"""Reflection, near duplicates and maintenance."""
