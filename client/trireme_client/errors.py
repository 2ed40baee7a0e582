"""What can go wrong, as the caller sees it. Knows no protocol; the two wire modules raise these."""


class TriremeError(Exception):
    """Anything a server or the way to it did wrong. `exit_code` is what the command line ends with."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class ServerUnavailable(TriremeError):
    """Nothing answers at the address, the connection broke, or the server is too full to take the request."""

    exit_code = 3


class DeadlineExceeded(TriremeError):
    """No answer within the timeout. The server may still be working on it."""

    exit_code = 3


class InvalidInput(TriremeError):
    """The server, or the client before it, refused an input. The message names the tensor and what is allowed.

    `index` is the position of the offending item in the caller's list, or None if no single item is to blame.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index

    def __str__(self) -> str:
        return self.message if self.index is None else f"item {self.index}: {self.message}"


class ModelNotFound(TriremeError):
    """The server has no such model, or has it and it is not loaded."""


class ServerError(TriremeError):
    """The server failed while it worked on a valid request."""
