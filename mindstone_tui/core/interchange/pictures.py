"""Pictures that stand within the messages of other programs, kept as blobs of the transcript."""

import base64
import binascii
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from mindstone_tui.core.entries import Image, Part
from mindstone_tui.core.interchange.read_bytes import mapping, text
from mindstone_tui.core.transcript import Transcript

_PNG: Final = b"\x89PNG\r\n\x1a\n"


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


_MOST: Final = 32
"""Pictures of one message; a line of the transcript names no more."""
_LARGEST: Final = 20 << 20


class Picture(Part):
    """A picture within a message, as the file has it."""

    data: str
    """Base64."""


def pictures_in(content: object) -> tuple[Picture, ...]:
    """The pictures whose bytes stand in a message, whichever API it was written for."""
    return tuple(_found(content if isinstance(content, list) else [content]))[:_MOST]


def _found(parts: Sequence[object]) -> Iterator[Picture]:
    for each in parts:
        part = mapping(each)
        source = mapping(part.get("source"))
        inline = mapping(part.get("inlineData"))
        url = part.get("image_url") or part.get("url")
        address = text(mapping(url).get("url") if isinstance(url, dict) else url)
        if source.get("type") == "base64":
            yield Picture(data=text(source.get("data")))
        elif text(inline.get("mimeType")).startswith("image/"):
            yield Picture(data=text(inline.get("data")))
        elif address.startswith("data:") and ";base64," in address[:100]:
            yield Picture(data=address.split(";base64,", 1)[1])
        elif part.get("type") == "image" and isinstance(part.get("data"), str):
            yield Picture(data=part["data"])


def keep_pictures(pictures: Sequence[Picture], transcript: Transcript) -> tuple[Image, ...]:
    """The pictures as entries name them; what is no picture stays the word that stands for it."""
    kept: list[Image] = []
    for number, picture in enumerate(pictures, 1):
        data = _decoded(picture.data)
        found = measure(data) if data else None
        if found is not None:
            blob = transcript.keep_blob(data)
            kind, width, height = found
            name = f"image-{number}.{kind.removeprefix('image/')}"
            kept.append(
                Image(sha256=blob.sha256, media_type=kind, width=width, height=height, name=name)
            )
    return tuple(kept)


def _decoded(data: str) -> bytes:
    if len(data) > _LARGEST * 4 // 3 + 4:
        return b""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""
