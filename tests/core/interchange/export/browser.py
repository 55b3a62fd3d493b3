"""A headless Chromium, driven over a pipe: enough to open a page, look, and press keys."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE = 60.0
_FRAME = 1 / 60
_SHARING: list[contextlib.ExitStack] = []
_RUNNING: dict[contextlib.ExitStack, Pipe] = {}


def find_chromium() -> str | None:
    """The browser on this machine, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Pipe:
    """The two ends that a running program is driven by, whatever page is open in it."""

    def __init__(self, to: int, back: int) -> None:
        self._to = to
        self._back = back
        self._buffer = b""
        self._number = 0
        self.idle: list[str] = []
        """Blank pages that nobody looks at; one that is made anew costs a second of work."""

    def send(self, message: dict[str, Any]) -> int:
        """Hand in a command; its number."""
        self._number += 1
        os.write(self._to, json.dumps({"id": self._number, **message}).encode() + b"\0")
        return self._number

    def rest(self) -> None:
        """Leave the processor to the page, until it tells something or for a frame."""
        if b"\0" not in self._buffer:
            select.select([self._back], [], [], _FRAME)

    def next(self) -> dict[str, Any]:
        """The next answer or event."""
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            piece = os.read(self._back, 1 << 16)
            assert piece, "the browser went away"
            self._buffer += piece
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        return message


class Browser:
    """One page, everything it asked the network for, and everything it complained about."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._target = pipe.idle.pop() if pipe.idle else self._blank()

    def _blank(self) -> str:
        """A page that shares nothing with any other."""
        own = self._ask("Target.createBrowserContext")["browserContextId"]
        made = self._ask("Target.createTarget", url="about:blank", browserContextId=own)
        return str(made["targetId"])

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        attached = self._ask("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")
        self._ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def reload(self) -> None:
        """Load the page again, and wait until it is there."""
        self._ask("Page.reload")
        while (event := self._pipe.next()).get("method") != "Page.loadEventFired":
            self._note(event)

    def run(self, expression: str) -> Any:
        """What an expression gives in the page."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Ask again until an expression is true."""
        deadline = time.monotonic() + _PATIENCE
        while not self._holds(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self._pipe.rest()

    def _holds(self, expression: str) -> bool:
        """Whether an expression is true; of a page that is being left nothing is."""
        try:
            return bool(self.run(expression))
        except AssertionError as error:
            if "target navigated" not in str(error):
                raise
            return False

    def picture(self, path: Path, *, dark: bool = False) -> None:
        """What the page looks like."""
        self.prefer("dark" if dark else "light")
        shot = self._ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Give the page so much room."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def type(self, text: str, *, enter: bool = False) -> None:
        """Type where the cursor is."""
        self._ask("Input.insertText", text=text)
        if enter:
            self.enter()

    def enter(self, *, held: bool = False) -> None:
        """Press Enter; a key that is held down only repeats."""
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **key, text="\r", autoRepeat=held)
        if not held:
            self._ask("Input.dispatchKeyEvent", type="keyUp", **key)

    def press(self, keys: str) -> None:
        """Press keys one after the other; a tab is the key of that name."""
        for key in keys:
            one = {"key": "Tab" if key == "\t" else key}
            one |= {"code": "Space" if key == " " else "", "text": "" if key == "\t" else key}
            number = ord(key.upper()) if key in "\t " or key.isalpha() else 0
            for kind in ("keyDown", "keyUp"):
                self._ask("Input.dispatchKeyEvent", type=kind, windowsVirtualKeyCode=number, **one)

    def click(self, x: float, y: float, *, drawn: float = 0.0) -> None:
        """Press the mouse at a place, and release it there or so far to the right."""
        for kind, at in (
            ("mousePressed", x),
            ("mouseMoved", x + drawn),
            ("mouseReleased", x + drawn),
        ):
            where = {"x": at, "y": y, "button": "left", "clickCount": 1}
            self._ask("Input.dispatchMouseEvent", type=kind, **where)

    def move(self, zone: str) -> None:
        """Be somewhere else, until this is closed."""
        self._ask("Emulation.setTimezoneOverride", timezoneId=zone)

    def prefer(self, scheme: str) -> None:
        """Set whether the person likes it light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._ask("Emulation.setEmulatedMedia", features=[feature])

    def close(self) -> None:
        """Forget the page and everything that it kept."""
        if self._session:
            self.run("localStorage.clear(); sessionStorage.clear()")
            self.run("Storage.prototype.setItem = () => {}; 0")  # nor what it keeps as it goes
            self._ask("Page.navigate", url="about:blank")
            self._ask("Emulation.clearDeviceMetricsOverride")
            self._ask("Emulation.setEmulatedMedia", features=[])
            self.move("")
            own, self._session = self._session, ""
            self._ask("Target.detachFromTarget", sessionId=own)
        self._pipe.idle.append(self._target)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        number = self._pipe.send(message)
        while True:
            answer = self._pipe.next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("sessionId") != self._session:
            return  # of a page before this one
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(params["args"]))


@contextlib.contextmanager
def chromium(program: str, profile: Path) -> Iterator[Browser]:
    """A page that knows nothing of any other, gone when the block ends."""
    with contextlib.ExitStack() as here:
        until = _SHARING[-1] if _SHARING else here
        if (pipe := _RUNNING.get(until)) is None:
            pipe = until.enter_context(_started(program, profile))
            if _SHARING:
                _RUNNING[until] = pipe
        browser = Browser(pipe)
        here.callback(browser.close)
        yield browser


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Let all browsers of the block be windows of one program: it takes a second to start."""
    with contextlib.ExitStack() as until:
        _SHARING.append(until)
        until.callback(_RUNNING.pop, until, None)
        until.callback(_SHARING.remove, until)
        yield


@contextlib.contextmanager
def _started(program: str, profile: Path) -> Iterator[Pipe]:
    command_in, command_out = os.pipe()
    answer_in, answer_out = os.pipe()
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
        "--disable-extensions",
        "--disable-features=BackForwardCache,SpareRendererForSitePerProcess",
        "--disable-sync",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "--window-size=1100,900",
    ]
    # The browser reads commands from descriptor 3 and answers on 4, wherever ours are.
    plumbing = (
        "import fcntl, os, sys\n"
        "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]\n"
        "os.dup2(ends[0], 3)\n"
        "os.dup2(ends[1], 4)\n"
        "os.execv(sys.argv[3], sys.argv[3:])\n"
    )
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", plumbing, str(command_in), str(answer_out)),
            *(program, *arguments),
        ],
        pass_fds=(command_in, answer_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(command_in)
    os.close(answer_out)
    try:
        yield Pipe(command_out, answer_in)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(command_out)
        os.close(answer_in)
