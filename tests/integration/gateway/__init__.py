"""The door, with a real stack behind it."""
