"""What a person attaches: kept, counted, sent to whoever takes it; else a sentence."""

from __future__ import annotations

import io
import os
import struct
import wave
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.context.messages import message_of
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Attachment
from mindstone_tui.core.session.attachments import LARGEST_TEXT, measure_sound
from mindstone_tui.core.text import as_written
from tests.core.session.stage import Stage, on_stage, script


def wav(seconds: float) -> bytes:
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(bytes(int(seconds * 8_000) * 2))
    return held.getvalue()


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", width, height) + bytes(16)


def test_how_long_a_sound_is_stands_in_its_header() -> None:
    kind, seconds = measure_sound(wav(3.0)) or ("", 0.0)
    assert kind == "audio/wav"
    assert seconds == pytest.approx(3.0, abs=0.05)
    assert (measure_sound(b"ID3" + bytes(32_000)) or ("", 0))[0] == "audio/mpeg"
    assert measure_sound(b"RIFF") is None
    assert measure_sound(b"text") is None


async def attached(stage: Stage, *paths: Path) -> UserMessage:
    await stage.say("what is this?", attachments=[Attachment(path=path) for path in paths])
    return stage.entries(UserMessage)[-1]


async def test_sound_picture_and_text_are_kept_counted_and_sent(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(10.0))
    (tmp_path / "a.png").write_bytes(png(640, 480))
    (tmp_path / "a.txt").write_text("the port is 8790\nand stays")
    model = script(tmp_path, {"text": "Seen."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
        before = stage.all(events.ContextReported)[-1].report.prompt.tokens
        said = await attached(stage, tmp_path / "a.wav", tmp_path / "a.png", tmp_path / "a.txt")
        sound, picture = said.images
        assert (sound.media_type, round(sound.seconds)) == ("audio/wav", 10)
        assert (picture.width, picture.height) == (640, 480)
        for each in said.images:
            assert (stage.places.blobs / each.sha256).exists()
        assert "the port is 8790\nand stays" in said.text
        assert as_written(said.text) == "what is this?\n\n[file a.txt, 2 lines]"
        grown = stage.all(events.ContextReported)[-1].report.prompt.tokens - before
        assert grown > 10 * 32 + 300, "sound and picture are counted"
        sent = message_of(said, blob=lambda digest: b"x", images=True, sounds=True)
        assert [part["type"] for part in sent["content"]] == ["text", "input_audio", "image_url"]
        assert not [e for e in stage.all(events.Noticed) if "does not take" in e.message]


async def test_a_model_that_does_not_take_them_gets_names_and_the_person_a_sentence(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.wav").write_bytes(wav(2.0))
    async with on_stage(home, model="local/guide") as stage:
        said = await attached(stage, tmp_path / "a.wav")
        told = [e.message for e in stage.all(events.Noticed)]
        assert any(each.startswith("local/guide does not take sounds") for each in told)
        sent = message_of(said, blob=lambda digest: b"x", images=False, sounds=False)
        assert sent["content"] == "what is this?\n[sound a.wav, 2 seconds]"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xfe\x00binary", "neither text"),
        (b"null\0byte", "neither text"),
        (b"x" * (LARGEST_TEXT + 1), "can be attached"),
    ],
)
async def test_what_no_model_reads_is_refused_in_a_sentence(
    home: Path, tmp_path: Path, data: bytes, why: str
) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    async with on_stage(home, model=script(tmp_path, {"text": "Hm."})) as stage:
        with pytest.raises(UsageError, match=why):
            stage.session.send("look", attachments=[Attachment(path=tmp_path / "a.bin")])
        with pytest.raises(UsageError, match="cannot be read"):
            stage.session.send("look", attachments=[Attachment(path=tmp_path / "none")])
        with pytest.raises(UsageError, match="cannot be read"):
            stage.session.send("look", attachments=[Attachment(path=tmp_path)])
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UsageError, match="cannot be read"):
            stage.session.send("look", attachments=[Attachment(path=tmp_path / "pipe")])
        assert not stage.entries(UserMessage)
