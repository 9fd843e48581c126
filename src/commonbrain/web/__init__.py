"""The web page: people see the memories, correct them and decide what waits for a decision."""
