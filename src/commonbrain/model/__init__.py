"""What a memory is: its kinds, values, limits and errors; pure, without I/O."""
