"""The main path of `trireme verify`: are the artifacts those exported, and does a server answer as the originals do?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trireme_server.artifacts import artifact_faults, sha256_of
from trireme_server.exit_codes import VerifyCode
from trireme_server.golden import Ask, Comparison, judge
from trireme_server.manifest import GoldenSample, InvalidManifest, Manifest, read_manifest
from trireme_server.repository import Entry, read_repository
from trireme_server.triton_api import TritonRefused, TritonUnreachable
from trireme_server.verify_wires import Wire


@dataclass(frozen=True)
class Problem:
    """What keeps an entry from being verified, and what to do about it."""

    code: VerifyCode
    found: str
    fix: str


_NO_WIRE = Problem(
    VerifyCode.NOT_ASKED,
    "it was not asked: it answers with a stream, which goes over gRPC alone",
    "leave out --no-grpc",
)


@dataclass(frozen=True)
class Files:
    """An entry's manifest, None if there is none to read, and what is wrong with it or its artifacts."""

    manifest: Manifest | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came of an entry's samples over one protocol."""

    right: int = 0
    worst: tuple[Comparison, ...] = ()  # of each output the one nearest to its bound, or farthest beyond
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One entry over one protocol."""

    entry: str
    wire: Wire
    files: Files
    replay: Replay | None  # None: this protocol does not serve such an entry, but another does

    @property
    def total(self) -> int:
        """Samples there are."""
        return len(self.files.manifest.golden) if self.files.manifest else 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.files.problems, *(self.replay.problems if self.replay else ()))

    @property
    def code(self) -> VerifyCode:
        return max((problem.code for problem in self.problems), default=VerifyCode.VERIFIED)


def verify(repository: Path, names: Sequence[str], wires: Sequence[Wire]) -> Iterator[Verdict]:
    """The verdicts on the named entries (none named: on all), each over every wire.

    Raises:
        RepositoryError: the repository cannot be read, or has no such entry.
    """
    read = read_repository(repository)
    for entry in read.entries(names or None):
        files = check_files(read.folder, entry)
        unasked = None if any(wire.asker(entry) for wire in wires) else Replay(problems=(_NO_WIRE,))
        for wire in wires:
            yield Verdict(entry=entry.name, wire=wire, files=files, replay=_replay(entry, files, wire) or unasked)


def check_files(repository: Path, entry: Entry) -> Files:
    """Reads every byte of the artifacts; hashes remembered from another start are not trusted."""
    export = f"trireme export {entry.name}"
    if entry.manifest_file is None:
        return Files(None, (Problem(VerifyCode.CHANGED, "there is no manifest to say what is right", export),))
    try:
        manifest = read_manifest(entry.manifest_file)
    except InvalidManifest as error:
        return Files(None, (Problem(VerifyCode.CHANGED, str(error), export),))
    found = [f"{fault.path} {fault.what}" for fault in artifact_faults(repository, manifest, sha256_of)]
    if not manifest.golden:
        found.append(f"{manifest.file} has no golden samples")
    return Files(manifest, tuple(Problem(VerifyCode.CHANGED, each, export) for each in found))


def _replay(entry: Entry, files: Files, wire: Wire) -> Replay | None:
    ask = wire.asker(entry)
    if ask is None:
        return None
    if problem := _why_not_asked(entry, wire):
        return Replay(problems=(problem,))
    return _replay_samples(entry.name, files.manifest.golden if files.manifest else (), ask)


def _why_not_asked(entry: Entry, wire: Wire) -> Problem | None:
    option = {"http": "--url", "grpc": "--grpc-url"}[wire.protocol]
    try:
        if wire.is_served(entry.name):
            return None
    except (TritonUnreachable, TritonRefused) as error:
        found = f"no Triton answers at {wire.address}: {error}"
        return Problem(VerifyCode.NOT_ASKED, found, f"start `trireme serve`, or name another address with {option}")
    found = f"the server at {wire.address} does not serve it"
    return Problem(VerifyCode.NOT_ASKED, found, f"load it there, or name another address with {option}")


def _replay_samples(entry: str, samples: Iterable[GoldenSample], ask: Ask) -> Replay:
    right, comparisons, problems = 0, list[Comparison](), list[Problem]()
    for number, sample in enumerate(samples, 1):
        try:
            judged = judge(sample, ask(entry, sample))
        except TritonRefused as error:
            problems.append(_wrong(entry, f"sample {number} got an error: {error}"))
            continue
        except TritonUnreachable as error:
            found = f"sample {number} got no answer: {error}"
            problems.append(Problem(VerifyCode.NOT_ASKED, found, "look at `trireme serve`'s /status"))
            break
        faults = [f"sample {number}: {each.output} {each.fault}" for each in judged if each.fault is not None]
        problems += [_wrong(entry, fault) for fault in faults]
        comparisons += judged
        right += not faults
    return Replay(right=right, worst=_worst(comparisons), problems=tuple(problems))


def _wrong(entry: str, found: str) -> Problem:
    fix = f"start the server again if the entry was exported since; else `trireme export {entry} --force`"
    return Problem(VerifyCode.WRONG_ANSWER, found, fix)


def _worst(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    outputs = dict.fromkeys(each.output for each in comparisons)
    return tuple(
        max((each for each in comparisons if each.output == output), key=lambda each: each.excess) for output in outputs
    )
