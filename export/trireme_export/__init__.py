"""Checkpoints in, verified Triton repository entries out."""
