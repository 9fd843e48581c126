"""What is done outside of any call: jobs, and who works on them."""
