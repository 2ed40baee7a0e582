"""`trireme serve` and `trireme doctor`: starts the real Triton, says when it is ready, and keeps it answering."""
