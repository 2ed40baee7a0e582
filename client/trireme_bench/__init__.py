"""Load generator, reports and plots for a Trireme server."""
