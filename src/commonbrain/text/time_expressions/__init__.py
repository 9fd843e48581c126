"""Time phrases in English, read into spans of the calendar."""
