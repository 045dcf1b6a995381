"""What the tables themselves hold, whatever the code above them does."""
