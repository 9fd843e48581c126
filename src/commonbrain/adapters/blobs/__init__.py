"""Where artifacts lie: a folder, or a bucket of S3 or of who speaks like it."""
