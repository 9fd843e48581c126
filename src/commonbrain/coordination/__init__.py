"""Sessions, boot, handoffs, leases and messages."""
