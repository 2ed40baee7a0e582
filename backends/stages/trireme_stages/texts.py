"""Texts of a request, as Triton hands them over: bytes that must be UTF-8."""

from __future__ import annotations

from trireme_triton.tensors import Inputs, InvalidRequest, bytes_column


def read_texts(name: str, inputs: Inputs, max_bytes: int | None = None) -> list[str]:
    """The items of the BYTES input `name`, (batch, 1); `max_bytes` bounds each.

    Raises:
        InvalidRequest: names the item that is too long or is not UTF-8.
    """
    return [_decoded(name, item, raw, max_bytes) for item, raw in enumerate(bytes_column(name, inputs[name]))]


def _decoded(name: str, item: int, raw: bytes, max_bytes: int | None) -> str:
    if max_bytes is not None and len(raw) > max_bytes:
        allowed = f"at most {max_bytes} are allowed"
        raise InvalidRequest(f"input {name!r}, item {item}: {len(raw)} bytes; {allowed}", reason="too_long")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise InvalidRequest(f"input {name!r}, item {item}: not UTF-8: {found}", reason="not_utf8") from None
