"""Who calls and what they may do: credentials, authority, quotas and secrets."""
