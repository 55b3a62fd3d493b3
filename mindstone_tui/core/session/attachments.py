"""What a person attaches: pictures and sounds are checked, measured and kept as blobs.

The text of a file becomes part of the message, marked as data: so it is counted, searched and
cleared of secrets like everything else that is said.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors
from mindstone_tui.core.entries import Image
from mindstone_tui.core.interchange.pictures import measure
from mindstone_tui.core.paths import from_home
from mindstone_tui.core.providers.base import ModelInfo
from mindstone_tui.core.text import FILE, as_data, fresh_nonce, one_line
from mindstone_tui.core.transcript import Transcript

LARGEST: Final = 20 << 20
LARGEST_TEXT: Final = 128 << 10
"""Bytes of a text file that become part of a message; the model can read more with its tools."""
_MP3_SECOND: Final = 16_000
"""Bytes of a second of MP3 at its most common rate."""


class Attached(msgspec.Struct, frozen=True):
    """A message's text with the files that belong to it, and its pictures and sounds."""

    text: str
    images: tuple[Image, ...] = ()


def attach(text: str, paths: Iterable[Path], transcript: Transcript) -> Attached:
    """Take files in with a message; raises a `UsageError` for what no model reads."""
    images: list[Image] = []
    for path in paths:
        data = _read(path)
        if (seen := recognise(data, path.name)) is not None:
            images.append(keep(data, seen, transcript))
        else:
            origin = f"{FILE}{one_line(path.name, 80)}"
            block = as_data(_text(path, data), origin=origin, nonce=fresh_nonce())
            text = f"{text}\n\n{block}".strip()
    return Attached(text, tuple(images))


def recognise(data: bytes, name: str) -> Image | None:
    """A picture or a sound that models take, measured and not yet kept; None when it is neither."""
    if (measured := measure(data)) is not None:
        kind, width, height = measured
        return Image(sha256="", media_type=kind, width=width, height=height, name=name)
    if (heard := measure_sound(data)) is not None:
        kind, seconds = heard
        return Image(sha256="", media_type=kind, width=0, height=0, name=name, seconds=seconds)
    return None


def keep(data: bytes, seen: Image, transcript: Transcript) -> Image:
    """Put its bytes beside the transcript, where the message will name them."""
    return msgspec.structs.replace(seen, sha256=transcript.keep_blob(data).sha256)


def not_taken(images: Iterable[Image], info: ModelInfo) -> str:
    """What a person should know when the model gets only the names of what was attached."""
    unseen = [each for each in images if not (info.sounds if each.is_sound else info.images)]
    if not unseen:
        return ""
    names = ", ".join(each.name for each in unseen)
    what = "sounds" if all(each.is_sound for each in unseen) else "pictures"
    return (
        f"{info.name} does not take {what}: it is told only the name of {names}. "
        "The file is kept; /model chooses a model that does."
    )


def _read(path: Path) -> bytes:
    try:
        return disk.read_regular(from_home(path), most=LARGEST)
    except OSError as error:
        raise errors.UsageError(
            f"{path} cannot be read: {error.strerror}.",
            f"Attach a file of at most {LARGEST >> 20} MB.",
        ) from error


def _text(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if "\0" in text or (data and not text):
        raise errors.UsageError(
            f"{path} is neither text nor a picture or sound that models take.",
            "Attach text, PNG, JPEG, GIF, WebP, WAV or MP3.",
        )
    if len(data) > LARGEST_TEXT:
        raise errors.UsageError(
            f"{path} has {len(data) >> 10:,} KB of text; {LARGEST_TEXT >> 10} can be attached.",
            "Name it without the @ and let the model read it in parts.",
        )
    return text


def measure_sound(data: bytes) -> tuple[str, float] | None:
    """Media type and seconds of a sound, as far as its header tells; None when it is none."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        at = data.find(b"fmt ", 12, 4_096)
        rate = struct.unpack("<I", data[at + 16 : at + 20])[0] if 0 <= at <= len(data) - 20 else 0
        return "audio/wav", round(len(data) / rate, 2) if rate else 0.0
    if data[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:2] in (b"\xfb", b"\xf3", b"\xf2")):
        return "audio/mpeg", round(len(data) / _MP3_SECOND, 2)
    return None
