"""Becomes another program that is told to end (SIGTERM) when its parent dies, however it dies.

Run as a script: `die_with_parent.py PARENT_PID PROGRAM [ARGUMENT...]`. It stands between fork and exec because
Python cannot safely run code of its own there once it has threads (documentation of `subprocess`, `preexec_fn`).
The kernel sends the signal when the *thread* that started this process ends: start it from the main thread.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # man 2 prctl

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:  # else it died before the line above
        os.execv(program[0], program)
