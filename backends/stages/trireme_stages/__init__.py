"""Every pre- and postprocessing step of Trireme's ensembles. Knows nothing of Triton's API."""
