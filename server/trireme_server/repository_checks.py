"""Checks of the model repository: configs, backends, versions, manifests and the artifacts they describe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trireme_server.artifacts import HashCache, artifact_faults
from trireme_server.export_advice import choose_version, export_anew
from trireme_server.manifest import InvalidManifest, read_manifest
from trireme_server.manifest_claims import false_claims, unnamed_files
from trireme_server.preflight import Finding, Surroundings, fail, ok, warn
from trireme_server.repository import Model, RepositoryError, read_repository
from trireme_server.run_folder import our_backends


def repository(around: Surroundings) -> Iterator[Finding]:
    """Whether it can be read and has the entries that were asked for."""
    try:
        entries = read_repository(around.config.repository).entries(around.config.entries)
    except RepositoryError as error:
        yield fail("model repository", str(error), "correct --repository or --models, or export the entry")
    else:
        yield ok("model repository", f"{', '.join(entry.name for entry in entries)} in {around.config.repository}")


def backends(around: Surroundings) -> Iterator[Finding]:
    ours = {path.name for path in our_backends(around.config.backends)}
    for entry in around.entries:
        for model in (each for each in entry.models if not each.config.is_ensemble):
            name = model.config.backend
            is_there = name in ours or (around.installation is not None and around.installation.has_official(name))
            if not is_there and name != "python":
                there = ", ".join(sorted(ours)) or "none"
                found = f"{model.name} needs the backend {name!r}; {around.config.backends} has {there}"
                yield fail("backend", found, "name the folder of the backends with --backends")


def exported(around: Surroundings) -> Iterator[Finding]:
    """Whether every model has the version that its config names, and the one that the ensemble asks for."""
    for entry in around.entries:
        missing = [model for model in entry.models if model.version_folder is None]
        if missing:
            advice = export_anew(entry, around.manifests.get(entry.name))
            yield fail(entry.name, f"not exported: {', '.join(map(_no_version, missing))}", advice)
            continue
        asked = entry.model.config.step_versions
        for step in entry.steps:
            if asked.get(step.name, step.version) != step.version:
                found = f"{step.name} is of version {step.version}, and its ensemble asks for {asked[step.name]}"
                yield fail(entry.name, found, choose_version(entry))


def _no_version(model: Model) -> str:
    wanted = model.config.version
    return f"no version of {model.name}" if wanted is None else f"no version {wanted} of {model.name}"


def manifests(around: Surroundings) -> Iterator[Finding]:
    for entry in around.entries:
        if (manifest := around.manifests.get(entry.name)) is not None:
            for claim in false_claims(manifest, entry):
                yield fail(entry.name, claim, export_anew(entry, manifest))
            continue
        file = entry.manifest_file
        if file is None:
            found = "no manifest: it counts as ready once it is loaded, unproved"
            yield warn(entry.name, found, export_anew(entry, None))
            continue
        try:
            read_manifest(file)
        except InvalidManifest as error:
            yield fail(entry.name, str(error), export_anew(entry, None))


def artifacts(around: Surroundings) -> Iterator[Finding]:
    if not around.config.verify_artifacts:
        return
    cache = HashCache(cache_file())
    for entry in around.entries:
        manifest = around.manifests.get(entry.name)
        if manifest is None:
            continue
        changed = artifact_faults(around.config.repository, manifest, cache.sha256)
        faults = [*(f"{fault.path} {fault.what}" for fault in changed), *unnamed_files(manifest, entry)]
        for fault in faults:
            yield fail(entry.name, fault, export_anew(entry, manifest))
        if not faults:
            yield ok(
                entry.name, f"{len(manifest.artifacts)} artifacts as exported, {len(manifest.golden)} golden samples"
            )
    cache.save()


CHECKS = (repository, backends, exported, manifests, artifacts)


def cache_file() -> Path:
    """Where hashes are remembered between starts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trireme" / "sha256.json"
