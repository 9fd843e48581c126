"""Tenants, status, backup, erasure and self-evaluation."""
