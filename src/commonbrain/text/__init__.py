"""English read by rule: statements, times, causes, entities and tokens; pure."""
