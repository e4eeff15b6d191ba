"""What passes ask about values."""
