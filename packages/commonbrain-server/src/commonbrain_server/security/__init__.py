"""Who calls a server and what they may do: credentials, logins, quotas, audits."""
