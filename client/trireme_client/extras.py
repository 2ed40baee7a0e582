"""Which subcommands this installation has: entry points, and whether the extra each one names is installed."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires, version

from packaging.requirements import Requirement

GROUP = "trireme.commands"


@dataclass(frozen=True)
class Subcommand:
    """One entry point, `NAME = "module:attribute [extra]"`."""

    entry_point: EntryPoint
    missing: tuple[str, ...]  # the packages that its extra needs and that are not installed

    @property
    def advice(self) -> str:
        (extra,) = self.entry_point.extras
        return f"`trireme {self.entry_point.name}` needs {', '.join(self.missing)}: pip install 'trireme[{extra}]'"


def subcommands() -> dict[str, Subcommand]:
    """By name, sorted, and whether installed or not."""
    found = sorted(entry_points(group=GROUP), key=lambda entry_point: entry_point.name)
    return {entry_point.name: Subcommand(entry_point, _missing(entry_point)) for entry_point in found}


def _missing(entry_point: EntryPoint) -> tuple[str, ...]:
    assert entry_point.dist, "entry_points() names the distribution of each"
    distribution = entry_point.dist.metadata["Name"]
    needed = [requirement for extra in entry_point.extras for requirement in _requirements(distribution, extra)]
    return tuple(f"{one.name}{one.specifier}" for one in needed if not _installed(one))


def _requirements(distribution: str, extra: str) -> list[Requirement]:
    """What the extra adds to the distribution on this platform."""
    listed = [Requirement(line) for line in requires(distribution) or ()]
    return [
        requirement
        for requirement in listed
        if requirement.marker and requirement.marker.evaluate({"extra": extra}) and not _always(requirement)
    ]


def _always(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _installed(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False
