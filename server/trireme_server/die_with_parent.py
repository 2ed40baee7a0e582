"""Becomes another program that is told to end (SIGTERM) when its parent dies, however it dies, and has a large stack.

Run as a script: `die_with_parent.py PARENT_PID PROGRAM [ARGUMENT...]`. It stands between fork and exec because
Python cannot safely run code of its own there once it has threads (documentation of `subprocess`, `preexec_fn`).
The kernel sends the signal when the *thread* that started this process ends: start it from the main thread.

Triton's HTTP server puts a whole body on the stack of a thread where it takes it for a form (`curl --data-binary`
without a content type), and parses JSON by recursion: with the usual 8 MiB a photograph of 5 MB ends the server.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # man 2 prctl
STACK = 256 * 2**20  # bytes; reserved for every thread, used only by those that need it


def enlarge_stack() -> None:
    """As far as the hard limit allows. Without any limit a thread would get 2 MiB (man 3 pthread_create)."""
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK if hard == resource.RLIM_INFINITY else min(STACK, hard), hard))


if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    enlarge_stack()
    if os.getppid() == parent:  # else it died before the line above
        os.execv(program[0], program)
