"""Checks of the machine: ports, shared memory, memory, disk, file limits, who can connect."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from trireme_server.connections import can_borrow
from trireme_server.overrides import override
from trireme_server.preflight import Finding, Surroundings, fail, mebibytes, ok, warn
from trireme_server.processes import Processes
from trireme_server.shared_memory import SHM, stale_regions

_LISTEN = "0A"  # the state in /proc/net/tcp
_STUB_SHM = 4 * 2**20  # a stub starts with a region of 1 MiB and grows it with its requests
_ROOMY_SHM = 256 * 2**20
_STUB_MEMORY = 150 * 2**20  # an interpreter with numpy and a runtime, before any weights
_WEIGHTS_FACTOR = 2.5  # a runtime holds weights in a layout of its own, beside those it read
_DISK = 200 * 2**20
_FILES = 4096

_KNOWN_VULNERABILITIES = (
    "CVE-2025-23310/23311 (tiny HTTP chunks), 23319/23320/23334 (shared memory), 33201 (huge payloads), "
    "CVE-2026-24146/24173/24208"
)

_NO_ADDRESS = errno.EADDRNOTAVAIL


def ports(around: Surroundings) -> Iterator[Finding]:
    for purpose, port in around.config.ports.items():
        name = f"port {port} ({purpose})"
        reason = _why_not_bindable(around.config.host, port)
        if reason is None:
            yield ok(name, "free")
        elif reason == _NO_ADDRESS:
            yield fail(name, f"{around.config.host!r} is no address of this machine", "choose another with --host")
        elif reason == errno.EADDRINUSE:
            holder = port_holder(around.processes, port) or "another process"
            yield fail(name, f"taken by {holder}", f"stop it, or choose another with --{purpose}-port")
        else:
            yield fail(name, os.strerror(reason), f"choose another with --host or --{purpose}-port")


def host(around: Surroundings) -> Iterator[Finding]:
    if around.config.is_loopback:
        yield ok("who can connect", f"this machine only ({around.config.host})")
    elif around.installation is not None and around.installation.kind == "wheel":
        yield warn(
            "who can connect",
            f"everyone who reaches {around.config.host}; Triton 2.51 has known holes: {_KNOWN_VULNERABILITIES}",
            "listen on 127.0.0.1, behind a proxy that buffers requests, caps their size and closes "
            "/v2/systemsharedmemory, /v2/repository, /v2/logging and /v2/trace",
        )
    else:
        yield ok("who can connect", f"everyone who reaches {around.config.host}")


def shared_memory(around: Surroundings) -> Iterator[Finding]:
    free = shutil.disk_usage(SHM).free
    stubs = _processes(around)
    fix = f"docker run --shm-size=1g, or mount -o remount,size=1g {SHM}"
    if free < stubs * _STUB_SHM:
        yield fail("shared memory", f"{mebibytes(free)} free in {SHM} for {stubs} processes", fix)
    elif free < _ROOMY_SHM:
        yield warn("shared memory", f"only {mebibytes(free)} free in {SHM}: large requests may fail", fix)
    else:
        yield ok("shared memory", f"{mebibytes(free)} free in {SHM}")


def _processes(around: Surroundings) -> int:
    """How many stubs will serve the models, if Triton's own backends serve none of them."""
    steps = {model.name: model for entry in around.entries for model in entry.models if not model.config.is_ensemble}
    changed = {
        name: override(step.config, around.machine, is_official=False, artifact_bytes=step.size)
        for name, step in steps.items()
    }
    return sum((changed[name] or step.config).instance_count or 1 for name, step in steps.items())


def stale_shared_memory(around: Surroundings) -> Iterator[Finding]:
    stale = stale_regions(around.processes)
    if stale:
        size = mebibytes(sum(path.stat().st_size for path in stale))
        found = f"{len(stale)} regions of dead servers hold {size}"
        yield warn("stale shared memory", found, f"rm {' '.join(map(str, stale))} (`trireme serve` does it)")
    else:
        yield ok("stale shared memory", "none")


def memory(around: Surroundings) -> Iterator[Finding]:
    available = around.machine.memory_available
    artifacts = sum(each.size for manifest in around.manifests.values() for each in manifest.artifacts.values())
    needed = artifacts * _WEIGHTS_FACTOR + _STUB_MEMORY * _processes(around)
    found = f"{mebibytes(available)} available, about {mebibytes(needed)} needed"
    fix = "serve fewer entries with --models, or raise the memory limit of the cgroup"
    if available < artifacts:
        yield fail("memory", found, fix)
    elif available < needed:
        yield warn("memory", found, fix)
    else:
        yield ok("memory", found)


def disk(around: Surroundings) -> Iterator[Finding]:
    folder = _existing(around.config.run_folder.absolute())
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        yield fail("disk", f"{folder} cannot be written", "choose another --run-folder")
    elif free < _DISK:
        yield warn("disk", f"only {mebibytes(free)} free in {folder}", "free some, or choose another --run-folder")
    else:
        yield ok("disk", f"{mebibytes(free)} free in {folder}")


def open_files(_around: Surroundings) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _FILES:
        found = f"a process may open {hard} files: fewer clients than that can connect"
        yield warn("open files", found, f"raise it: ulimit -Hn {_FILES}, or docker run --ulimit nofile={_FILES}")
    else:
        yield ok("open files", f"limit {soft}, raised to {'unlimited' if hard == resource.RLIM_INFINITY else hard}")


def lost_streams(_around: Surroundings) -> Iterator[Finding]:
    if can_borrow():
        yield ok("streams of a dead model", "their connections can be closed")
    else:
        yield warn(
            "streams of a dead model",
            "their connections cannot be closed one by one: the server is restarted when a stream is lost",
            "docker run --cap-add=SYS_PTRACE",
        )


CHECKS = (ports, host, shared_memory, stale_shared_memory, memory, disk, open_files, lost_streams)


def port_holder(processes: Processes, port: int) -> str | None:
    """The process that listens on `port`, if it can be seen."""
    rows = [line.split() for line in (*processes.network_table(1, "tcp"), *processes.network_table(1, "tcp6"))]
    inodes = {row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}
    for pid in processes.pids() if inodes else ():
        if inodes & set(processes.sockets(pid)) and (stat := processes.stat(pid)) is not None:
            return f"{stat.name} (process {pid})"
    return None


def _why_not_bindable(address: str, port: int) -> int | None:
    """The error number of an attempt to listen; None: it works."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen()
        except socket.gaierror:
            return _NO_ADDRESS
        except OSError as error:
            return error.errno or _NO_ADDRESS
    return None


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
