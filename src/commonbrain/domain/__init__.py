"""What a memory is and which laws it obeys: pure values and functions, no I/O, clock or chance."""
