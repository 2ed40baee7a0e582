"""The main path of `trireme verify`: are the artifacts those exported, and does a server answer as the originals do?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trireme_server.artifacts import artifact_faults, sha256_of
from trireme_server.exit_codes import VerifyCode
from trireme_server.export_advice import export_anew
from trireme_server.golden import Ask, Comparison, judge
from trireme_server.manifest import InvalidManifest, Manifest, read_manifest
from trireme_server.manifest_claims import false_claims, unnamed_files
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
    if entry.manifest_file is None:
        return Files(None, (_changed(entry, None, "there is no manifest to say what is right"),))
    try:
        manifest = read_manifest(entry.manifest_file)
    except InvalidManifest as error:
        return Files(None, (_changed(entry, None, str(error)),))
    faults = [f"{fault.path} {fault.what}" for fault in artifact_faults(repository, manifest, sha256_of)]
    found = [*faults, *_what_it_leaves_out(manifest, entry)]
    return Files(manifest, tuple(_changed(entry, manifest, each) for each in found))


def _changed(entry: Entry, manifest: Manifest | None, found: str) -> Problem:
    return Problem(VerifyCode.CHANGED, found, export_anew(entry, manifest))


def _what_it_leaves_out(manifest: Manifest, entry: Entry) -> Iterator[str]:
    """Why all that the manifest says may hold, and the entry is not verified all the same."""
    yield from false_claims(manifest, entry)
    if manifest.artifacts:
        yield from unnamed_files(manifest, entry)
    else:
        yield f"{manifest.file} names no artifacts"
    if not manifest.golden:
        yield f"{manifest.file} has no golden samples"
    for number, sample in enumerate(manifest.golden, 1):
        if not sample.outputs:
            yield f"{manifest.file}: golden sample {number} has no outputs to compare with"


def _replay(entry: Entry, files: Files, wire: Wire) -> Replay | None:
    ask = wire.asker(entry)
    if ask is None:
        return None
    if problem := _why_not_asked(entry, wire):
        return Replay(problems=(problem,))
    return _replay_samples(entry, files.manifest, ask)


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


def _replay_samples(entry: Entry, manifest: Manifest | None, ask: Ask) -> Replay:
    right, comparisons, problems = 0, list[Comparison](), list[Problem]()
    for number, sample in enumerate(manifest.golden if manifest else (), 1):
        if not sample.outputs:
            continue  # no answer would be right or wrong
        try:
            judged = judge(sample, ask(entry.name, sample))
        except TritonRefused as error:
            problems.append(_wrong(entry, manifest, f"sample {number} got an error: {error}"))
            continue
        except TritonUnreachable as error:
            found = f"sample {number} got no answer: {error}"
            problems.append(Problem(VerifyCode.NOT_ASKED, found, "look at `trireme serve`'s /status"))
            break
        faults = [f"sample {number}: {each.output} {each.fault}" for each in judged if each.fault is not None]
        problems += [_wrong(entry, manifest, fault) for fault in faults]
        comparisons += judged
        right += not faults
    return Replay(right=right, worst=_worst(comparisons), problems=tuple(problems))


def _wrong(entry: Entry, manifest: Manifest | None, found: str) -> Problem:
    fix = f"start the server again if the entry was exported since; else {export_anew(entry, manifest)}"
    return Problem(VerifyCode.WRONG_ANSWER, found, fix)


def _worst(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    outputs = dict.fromkeys(each.output for each in comparisons)
    return tuple(
        max((each for each in comparisons if each.output == output), key=lambda each: each.excess) for output in outputs
    )
