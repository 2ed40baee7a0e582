"""Trains the head of `guard`, and holds it: `head.safetensors` with `head.json`, which says how it was made."""
