"""How well recall finds what this very store holds: measured on it, and changing nothing of it."""
