"""The tests: what the code promises, and the proof of it."""
