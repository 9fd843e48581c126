"""Optional language models that extract causes and write reflections."""
