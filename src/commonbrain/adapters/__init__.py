"""The ports' implementations: databases, models, queues and clocks."""
