"""The read path: from a query to packed evidence."""
