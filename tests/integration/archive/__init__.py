"""What has gone cold: written, read back, audited."""
