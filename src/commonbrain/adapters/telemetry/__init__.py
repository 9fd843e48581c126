"""What listens to pipelines and doors: figures, spans, logs, and a place for early events."""
