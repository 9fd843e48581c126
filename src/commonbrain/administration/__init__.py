"""Tenants, status, backup and erasure."""
