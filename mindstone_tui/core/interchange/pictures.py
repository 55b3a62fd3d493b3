"""Pictures that stand within the messages of other programs, kept as blobs of the transcript."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Final

from mindstone_tui.core.entries import Image, Part
from mindstone_tui.core.interchange.read_bytes import mapping, text
from mindstone_tui.core.pictures import measure
from mindstone_tui.core.transcript import Transcript

_MOST: Final = 32
"""Pictures of one message; a line of the transcript names no more."""
_LARGEST: Final = 20 << 20


class Picture(Part):
    """A picture within a message, as the file has it."""

    data: str
    """Base64."""


def pictures_in(content: object) -> tuple[Picture, ...]:
    """The pictures whose bytes stand in a message, whichever API it was written for."""
    parts = content if isinstance(content, list) else [content]
    return tuple(_found(parts))[:_MOST]


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
