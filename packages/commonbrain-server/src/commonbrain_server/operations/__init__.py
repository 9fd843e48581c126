"""The operations of a server: its tenants, and training for other servers' clients."""
