"""A database that changes its SET, killed at every point."""
