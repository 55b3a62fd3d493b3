"""Local models load no library and connect nowhere; litellm is loaded with its mouth shut."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import ROOT
from tests.strace import only

LOCAL = """
import asyncio, json, sys
from pathlib import Path
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Request
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import registry
from mindstone_tui.core.providers.base import Options, TextPart

async def main():
    places = Places.resolve({"MINDSTONE_HOME": sys.argv[1]})
    said = []
    for name in sys.argv[2:]:
        provider = registry.resolve(name, ModelSettings(), places, {})
        asked = Request(model=name, messages=({"role": "user", "content": "hello"},))
        async for delta in provider.stream(asked, Options(max_tokens=16)):
            if isinstance(delta, TextPart):
                said.append(delta.text)
        await provider.close()
    registry.available(ModelSettings(), places, {})
    registry.warm_up(provider)
    heavy = {"litellm", "openai", "httpx", "aiohttp", "textual", "rich", "typer", "onnxruntime"}
    print(json.dumps({"said": "".join(said), "loaded": sorted(heavy & set(sys.modules))}))

asyncio.run(main())
"""

LOADED = """
import json, os, sys
from mindstone_tui.core.lockdown import import_litellm
litellm = import_litellm()
print(json.dumps({
    "leaked": os.environ.get("LEAKED_FROM_DOTENV"),
    "version": __import__("importlib.metadata", fromlist=["version"]).version("litellm"),
    "models": len(litellm.model_cost),
    "callbacks": len(litellm.callbacks) + len(litellm.success_callback),
}))
"""


def run(code: str, *arguments: str, cwd: Path, trace: Path | None = None) -> Any:
    """Run code in a process of its own, under strace where a trace is wanted."""
    watch = ["strace", *only("connect,bind"), "-o", str(trace)] if trace else []
    command = [*watch, sys.executable, "-c", code, *arguments]
    environ = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def internet(trace: Path, call: str) -> list[str]:
    """Every `connect` or `bind` that names an address; Unix sockets are this machine's own."""
    lines = trace.read_text().splitlines()
    return [line for line in lines if f"{call}(" in line and "AF_INET" in line]


@pytest.fixture
def trace(tmp_path: Path) -> Path | None:
    """Where strace writes; None on a machine without it."""
    return tmp_path / "trace" if shutil.which("strace") else None


def test_local_models_load_no_library_and_connect_nowhere(
    tmp_path: Path, trace: Path | None
) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"text": "scripted words"}\n')
    heard = run(
        LOCAL, str(tmp_path / "h"), "local/guide", f"scripted/{script}", cwd=tmp_path, trace=trace
    )
    assert heard["loaded"] == []
    assert "not a language model" in heard["said"]
    assert "scripted words" in heard["said"]
    if trace is None:
        pytest.skip("no strace here: connections were not watched")
    assert internet(trace, "connect") == []
    assert internet(trace, "bind") == []


def test_litellm_is_loaded_silently_without_the_network_or_a_dotenv_file(
    tmp_path: Path, trace: Path | None
) -> None:
    (tmp_path / ".env").write_text("LEAKED_FROM_DOTENV=yes\nOPENAI_API_KEY=sk-evil\n")
    seen = run(LOADED, cwd=tmp_path, trace=trace)
    assert seen["leaked"] is None
    assert seen["version"] == "1.105.3"
    assert seen["models"] > 1_000
    assert seen["callbacks"] == 0
    if trace is None:
        pytest.skip("no strace here: connections were not watched")
    assert internet(trace, "connect") == []


def test_the_small_model_connects_nowhere_and_listens_nowhere(
    tmp_path: Path, trace: Path | None
) -> None:
    found = os.environ.get("MINDSTONE_WEIGHTS")
    if found is None or trace is None:
        pytest.skip("needs strace, and MINDSTONE_WEIGHTS naming the small model's file")
    models = tmp_path / "h" / "models"
    models.mkdir(parents=True)
    (models / Path(found).name).symlink_to(found)
    heard = run(LOCAL, str(tmp_path / "h"), "local/smollm2", cwd=tmp_path, trace=trace)
    assert heard["said"]
    assert heard["loaded"] == []
    assert internet(trace, "connect") == []
    assert internet(trace, "bind") == []
