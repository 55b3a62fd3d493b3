"""One real compaction by the small model: its summary is audited like any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries.conversation import SideRequestSent
from mindstone_tui.core.entries.derived import SummaryDerived
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import local_models
from mindstone_tui.core.providers.local_provider import why_not
from tests.core.session.stage import on_stage, script

SMOLLM2 = local_models.find("smollm2").full_name
TALK = (
    "Never touch legacy/billing.py. The retry limit is 17 and lives in src/net/retry_policy.py.",
    "We decided to use mmap for parse_block because copies cost 240 ms.",
    "The failing case is test_unicode_4711; it raises ValueError in decode_frame.",
    "Deploy to host ward-03 on port 8137, always behind the flag fast_parse.",
)


async def test_where_the_small_model_forgets_sentences_of_the_originals_take_over(
    home: Path, tmp_path: Path
) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    if found := os.environ.get("MINDSTONE_WEIGHTS"):
        places.models.mkdir(parents=True)
        local_models.path_of(places, local_models.find("smollm2")).symlink_to(found)
    if missing := why_not(places, local_models.find("smollm2"), ModelSettings()):
        pytest.skip(f"the small model is not here ({missing}); MINDSTONE_WEIGHTS may name its file")
    (home / "config.toml").write_text(
        f'[models]\nsummary = "{SMOLLM2}"\n[recall]\nauto = false\n[context]\nmin_recent = 2\n'
        'keep_recent_tokens = 100\n[tools]\ndisabled = ["shell", "delegate", "write", "edit"]\n'
    )
    model = script(tmp_path, {"text": "Noted, as you said. " * 22}, loop=True)
    async with on_stage(home, model=model, context_window=3_000) as stage:
        for text in (*TALK, "What is next?"):
            assert (await stage.say(text)).ending == "done"
        ended, said = await stage.run("/compact", patience=240)
        assert ended.ok, said
        asked = stage.entries(SideRequestSent)
        assert {one.model for one in asked} == {SMOLLM2}
        assert len(asked) == 2, "it had its second chance"
        (summary,) = stage.entries(SummaryDerived)
        assert (summary.fallback, summary.model) == (True, "deterministic")
        for kept in ("legacy/billing.py", "17", "decode_frame", "ward-03", "8137"):
            assert kept in summary.text
