"""Sessions: who is at work, and what one session keeps at hand and claims."""
