"""The engine's folder and this one's shared parts, importable.

The engine is not served yet, so its libraries are in no lock: without them its tests are not collected.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "backends" / "llm")]

collect_ignore_glob = [] if find_spec("gguf") and find_spec("llguidance") else ["test_*.py"]
