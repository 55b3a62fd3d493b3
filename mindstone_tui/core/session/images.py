"""Pictures that a person attaches: checked, measured, and kept as blobs."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from mindstone_tui.core.disk import LARGEST_BLOB, read_regular
from mindstone_tui.core.entries import Image
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.transcript import Transcript

LARGEST: Final = 20 << 20
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def attach(path: Path, transcript: Transcript) -> Image:
    """Keep a picture beside the transcript; raises a `UsageError` for anything else."""
    try:
        data = read_regular(path.expanduser(), most=LARGEST_BLOB)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", "Check the path of the picture."
        ) from error
    if len(data) > LARGEST:
        raise UsageError(
            f"{path} has {len(data) >> 20} MB; pictures may have {LARGEST >> 20}.",
            "Make it smaller first.",
        )
    measured = measure(data)
    if measured is None:
        raise UsageError(
            f"{path} is not a picture that models read.", "Use PNG, JPEG, GIF or WebP."
        )
    media_type, width, height = measured
    blob = transcript.keep_blob(data)
    return Image(
        sha256=blob.sha256, media_type=media_type, width=width, height=height, name=path.name
    )


def measure(data: bytes) -> tuple[str, int, int] | None:
    """Media type, width and height, read from the file's own header."""
    if data.startswith(_PNG) and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return "image/png", width, height
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return "image/gif", width, height
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", *_webp_size(data)
    if data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
        return ("image/jpeg", *size) if size else None
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        length = struct.unpack(">H", data[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


def _webp_size(data: bytes) -> tuple[int, int]:
    form, body = data[12:16], data[20:30]
    if form == b"VP8X" and len(body) >= 10:
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if form == b"VP8L" and len(body) >= 5:
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if form == b"VP8 " and len(body) >= 10:
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0
