"""The language-model engine: continuous batching over a paged cache. Knows tokens, not text, and no Triton."""
