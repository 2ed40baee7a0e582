"""How `trireme serve`, `doctor` and `verify` end. Part of the command line's contract: scripts branch on these."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """0 is a stop that was asked for; 2 is click's own code for a wrong command line."""

    STOPPED = 0
    UNEXPECTED = 1
    PREFLIGHT_FAILED = 3
    MODEL_FAILED = 4  # at the start: a model did not load, or gave a wrong answer
    SERVER_FAILED = 5  # at the start: tritonserver ended by itself
    CRASH_LOOP = 6
    HURRIED = 130  # a second Ctrl-C ended the server before its running requests were done


class VerifyCode(IntEnum):
    """How `trireme verify` ends: the largest that applies, so that 3 alone is worth another attempt."""

    VERIFIED = 0
    NOT_ASKED = 3  # no server at the address, it does not serve the model, or the protocol left out alone does
    WRONG_ANSWER = 4  # or an error instead of one
    CHANGED = 5  # an artifact or a manifest is missing, or not as exported


class ServeError(Exception):
    """Serving cannot go on. The text tells the operator why and, where known, what to do."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code
