"""Metrics, traces, logs and health checks."""
