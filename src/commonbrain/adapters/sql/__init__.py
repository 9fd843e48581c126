"""One relational implementation for every engine, on SQLAlchemy Core."""
