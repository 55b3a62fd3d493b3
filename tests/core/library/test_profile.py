"""A profile is what the transcript says, however often and in how many pieces it is read."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mindstone_tui.core.entries import ToolCall, Usage
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from mindstone_tui.core.entries.store import SessionDescribed, UsedOn
from mindstone_tui.core.entries.window import (
    InstructionsChanged,
    Restored,
    Rewound,
    Section,
    WindowState,
)
from mindstone_tui.core.library.profile import list_described, profile_of
from mindstone_tui.core.paths import Places
from tests.builders import transcript_in


def talk(home: Path, model: str = "m/one") -> None:
    transcript = transcript_in(home)
    transcript.append(TurnStarted(), turn=1)
    transcript.append(UserMessage(text="read it"), turn=1)
    call = ToolCall(id="c", name="read", arguments='{"path": "src/a.py"}')
    transcript.append(AssistantMessage(text="", model=model, calls=(call,)), turn=1)
    usage = Usage(prompt=10, completion=2, cost=0.5)
    transcript.append(UsageReported(call=1, model=model, usage=usage), turn=1)
    transcript.close()


def test_what_is_read_in_pieces_is_what_is_read_at_once(home: Path) -> None:
    talk(home)
    places = transcript_in(home).places
    first = profile_of(places)
    assert first is not None
    whole = first.whole()
    assert (whole.models, whole.tools, whole.files) == ({"m/one": 1}, {"read": 1}, {"src/a.py": 1})
    assert whole.said == {"user": 1, "assistant": 1}
    talk(home, "m/two")
    in_pieces = profile_of(places)
    places.profile.unlink()
    assert profile_of(places) == in_pieces
    assert in_pieces is not None
    assert in_pieces.usage() == Usage(prompt=20, completion=4, cost=1.0)
    assert places.profile.stat().st_mode & 0o777 == 0o600


def test_a_damaged_profile_is_made_again(home: Path) -> None:
    talk(home)
    places = transcript_in(home).places
    whole = profile_of(places)
    assert whole is not None
    older = {"salt": whole.salt, "read": whole.read, "folder": "/as/it/was/told/before"}
    for rubbish in (b"", b"{", b'{"version": 99}', b"[]", msgspec.json.encode(older)):
        places.profile.write_bytes(rubbish)
        assert profile_of(places) == whole


def test_the_newest_word_of_the_other_program_replaces_the_one_before(home: Path) -> None:
    transcript = transcript_in(home)
    for tokens in (5, 9):
        used = UsedOn(day="2026-03-01", model="m", usage=Usage(prompt=tokens))
        transcript.append(SessionDescribed(program="codex", folder="/work/app", used=(used,)))
    transcript.close()
    found = profile_of(transcript.places)
    assert found is not None
    assert (found.program, found.usage().prompt) == ("codex", 9)


def test_an_imported_session_in_which_one_goes_on_was_used_then(home: Path) -> None:
    old = "2025-03-02T09:00:00.000Z"
    transcript = transcript_in(home)
    transcript.append(UserMessage(text="hello"), turn=1, ts=old)
    transcript.append(SessionDescribed(program="codex", began=old, ended=old))
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    assert profile_of(transcript.places) is not None
    assert [one.used for one in list_described(places)] == [old]
    now = transcript.append(UserMessage(text="and on"), turn=2)
    transcript.close()
    assert [one.used for one in list_described(places)] == [now.ts]


def test_an_imported_session_stays_in_its_folder_wherever_one_goes_on_with_it(home: Path) -> None:
    text = "You work in /elsewhere on Linux."
    here = InstructionsChanged(
        sections=(Section(name="environment", text=text, source="", raw_size=len(text)),),
        state=WindowState(through=-1),
    )
    transcript = transcript_in(home)
    transcript.append(SessionDescribed(program="claude-code", folder="/work/app"))
    transcript.append(here, turn=1)
    own = transcript_in(home, "agent:default:mine")
    own.append(here, turn=1)
    for each, folder in ((transcript, "/work/app"), (own, "/elsewhere")):
        each.close()
        found = profile_of(each.places)
        assert found is not None
        assert found.folder == folder


def test_a_list_names_no_request_that_was_rewound_and_says_how_many_were(home: Path) -> None:
    transcript = transcript_in(home)
    for turn, said in enumerate(("sell the boat", "paint it", "sink it"), 1):
        transcript.append(TurnStarted(), turn=turn)
        transcript.append(UserMessage(text=said), turn=turn)
    after = WindowState(through=transcript.head.seq)
    transcript.append(Rewound(to_turn=2, state=after), turn=3)
    [listed] = list_described(Places.resolve({"MINDSTONE_HOME": str(home)}))
    assert (listed.title, listed.text, listed.rewound) == ("sell the boat", "paint it", 1)
    transcript.append(Rewound(to_turn=0, state=after), turn=3)
    transcript.append(TurnStarted(), turn=4)
    transcript.append(UserMessage(text="keep the boat"), turn=4)
    [listed] = list_described(Places.resolve({"MINDSTONE_HOME": str(home)}))
    assert (listed.title, listed.turns, listed.rewound) == ("keep the boat", 4, 3)
    transcript.append(Restored(turns=(1,), state=after), turn=4)
    [listed] = list_described(Places.resolve({"MINDSTONE_HOME": str(home)}))
    assert (listed.title, listed.rewound) == ("sell the boat", 2)
    transcript.close()
