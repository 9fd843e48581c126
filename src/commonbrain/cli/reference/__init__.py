"""The reference, drawn from the tables that the program runs on; never edited, never kept."""
