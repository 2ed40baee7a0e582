"""What Triton's error texts tell beyond their code."""

import re

_REQUEST_ID = re.compile(r"^\[request id: [^\]]*\] ")


def plain(message: str | None) -> str:
    """The text without the request id that Triton puts before some of them."""
    return _REQUEST_ID.sub("", message or "no reason given")


def is_launchers_own(model: str) -> bool:
    """`trireme serve` lets a version prove itself under such a name, which no entry has."""
    return model.endswith(".next")


def is_reloading(message: str) -> bool:
    """Triton says so of a model that it knows and has not loaded: one that is being loaded again."""
    return message.startswith("Request for unknown model: ") and message.endswith(" has no available versions")


def is_queue_timeout(message: str) -> bool:
    """Triton says UNAVAILABLE, in these words, when a request's own timeout ran out in the queue."""
    return message == "Request timeout expired"
