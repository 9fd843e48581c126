"""The write path: from a draft to a stored memory."""
