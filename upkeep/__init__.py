"""What a DBA looks at and keeps: catalog budget, bloat, slow statements, hot envelopes; backup and restore of a SET."""
