"""What every Python-based backend of Trireme shares: parameters, tensors, cold start and metrics.

Each backend's folder holds a link to this package, so that a backend is still deployed by copying its folder.
"""
