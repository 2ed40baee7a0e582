"""Why an export ends without an entry: every kind has its exit code, and a text for the one who ran the command."""

from __future__ import annotations

from dataclasses import dataclass


class ExportError(Exception):
    """Base of all refusals; the message says what was wrong, where, and what to do."""

    exit_code = 1


class SourceUnavailable(ExportError):
    """A checkpoint could not be fetched, or what came is not what was pinned."""

    exit_code = 3


class CalibrationRefused(ExportError):
    """What was given to calibrate with cannot be read as texts or images."""

    exit_code = 2


class CheckpointRefused(ExportError):
    """A checkpoint is damaged, unsafe, or not what its definition needs."""

    exit_code = 4


@dataclass(frozen=True)
class ParityRun:
    """A case of the parity gate in a runtime, by their names."""

    runtime: str
    case: str

    def __str__(self) -> str:
        return f"{self.runtime}, {self.case}"


class ParityFailed(ExportError):
    """The artifact answers differently from the original."""

    exit_code = 5

    def __init__(self, text: str, run: ParityRun) -> None:
        super().__init__(text)
        self.run = run  # of several, the one that is farthest off


class InstallFailed(ExportError):
    """The repository could not take the entry; it is as it was."""

    exit_code = 6


class VersionRefused(ExportError):
    """There is no such version of an entry, or it is not as it was exported."""

    exit_code = 7
