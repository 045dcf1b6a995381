"""The audit finds and names every edit."""
