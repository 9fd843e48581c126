"""Import the memories of other systems into Commonbrain: chats, graphs, databases, notes."""
