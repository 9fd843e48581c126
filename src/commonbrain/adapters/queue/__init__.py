"""Queues of tickets: within one process, or between many by Redis."""
