"""Bootstrap: builds the services from the settings."""
