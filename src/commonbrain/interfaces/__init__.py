"""The doors: each only translates between its callers and the operations."""
