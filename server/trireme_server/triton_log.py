"""Triton's own log: read as it grows, so that errors in it are not lost in a file."""

from __future__ import annotations

import re
from pathlib import Path

_ERROR = re.compile(r"^[EF]\d{4} [\d:.]+ \d+ \S+\] (.*)")
_TRACEBACK = r"\n\nAt:\n"  # line breaks are escaped in the log
# said at every start without a GPU, and about every retired model
_HARMLESS = ("unable to create stream", "CudaDriverHelper", "contains models that are not available or ambiguous")


class TritonLog:
    """A log file and how far it has been read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def new_errors(self) -> list[str]:
        """The error lines that have been added since the last call."""
        with self._file.open("rb") as file:
            file.seek(self._offset)
            block = file.read()
        complete = block[: block.rfind(b"\n") + 1]
        self._offset += len(complete)
        return error_lines(complete.decode(errors="replace"))

    def tail(self, lines: int = 15) -> str:
        """The last lines, whatever they say."""
        return "\n".join(self._file.read_text(errors="replace").splitlines()[-lines:])


def error_lines(text: str) -> list[str]:
    """The messages of Triton's error lines, without those that mean nothing and without stubs' Python tracebacks."""
    messages = [
        found[1].strip('"').partition(_TRACEBACK)[0] for line in text.splitlines() if (found := _ERROR.match(line))
    ]
    return [message for message in messages if not any(part in message for part in _HARMLESS)]
