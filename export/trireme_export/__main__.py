"""`python -m trireme_export` is `trireme export`."""

from __future__ import annotations

from trireme_export.commands import export

export(prog_name="trireme export")
