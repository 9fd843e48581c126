"""Messages: agents talk through the memory they share."""
