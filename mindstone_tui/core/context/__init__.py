"""What the model sees next, decided by pure functions."""
