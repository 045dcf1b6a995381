"""The rules (floor 1)."""
