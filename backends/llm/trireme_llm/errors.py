"""What can go wrong, told apart by whose fault it is."""


class InvalidRequest(ValueError):
    """The caller asked for something this engine cannot do; the text is written for the caller."""


class UnsupportedCheckpoint(ValueError):
    """The checkpoint holds something this engine does not understand; the text names it."""


class EngineStopped(RuntimeError):
    """The engine no longer takes requests, because it was closed or is unhealthy."""
