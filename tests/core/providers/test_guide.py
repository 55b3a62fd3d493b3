"""The guide is honest about what it is, quotes with pointers, and uses only tools it was given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.core.config.glossary import glossary
from mindstone_tui.core.config.settings import ContextSettings, Settings
from mindstone_tui.core.entries import Message, Request, ToolSchema
from mindstone_tui.core.errors import ProviderRefused
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.guide import GuideProvider
from mindstone_tui.core.providers.guide.provider import GuideAnswer
from mindstone_tui.core.providers.guide.provider import respond as respond_with
from tests.core.providers.requests import Broken, hear, request, tool

TOOLS: tuple[ToolSchema, ...] = (
    tool("read", "path"),
    tool("list", path={"type": "string", "default": "."}),
    tool("glob", "pattern"),
    tool("grep", "pattern", path={"type": "string"}),
    tool("shell", "command"),
    tool("recall", "query"),
    tool("read_entry", "entry"),
    tool("remember", "title", "text", "source"),
    tool("note", "text", "category", category={"type": "string", "enum": ["bugs", "misc"]}),
)


WORDS = glossary(Settings())


def respond(asked: Request) -> GuideAnswer:
    """What the guide does under the default settings."""
    return respond_with(asked, WORDS)


def wanted(question: str, *before: Message | str) -> tuple[str, Any]:
    """The single tool call the guide makes for a question."""
    answer = respond(request(*before, question, tools=TOOLS))
    assert len(answer.calls) == 1, answer
    name, arguments = answer.calls[0]
    return name, json.loads(arguments)


def used(name: str, arguments: str, result: str) -> tuple[Message, Message]:
    """A call the guide made, and its result."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    )


@pytest.mark.parametrize(
    "hello",
    [
        "hello",
        "Hi!",
        "who are you?",
        "help",
        "",
        "what can you do?",
        "hello, who are you and what can you do?",
        "Hello! Who are you?",
        "hey there, are you an AI? what can you do for me?",
        "good morning, how can you help me",
    ],
)
def test_it_introduces_itself_and_says_what_it_is_not(hello: str) -> None:
    said = respond(request(hello, tools=TOOLS)).text
    assert "not a language model" in said
    assert "mindstone models" in said
    assert len(said) < 900


@pytest.mark.parametrize(
    ("question", "name", "arguments"),
    [
        ("read README.md", "read", {"path": "README.md"}),
        ("please read the file src/a.py.", "read", {"path": "src/a.py"}),
        ('read "my notes.txt"', "read", {"path": "my notes.txt"}),
        ("show me README.md", "read", {"path": "README.md"}),
        ("grep TODO", "grep", {"pattern": "TODO"}),
        ("grep TODO in src", "grep", {"pattern": "TODO", "path": "src"}),
        ("find TODO in src", "grep", {"pattern": "TODO", "path": "src"}),
        ("search for 'a b' in ./x", "grep", {"pattern": "a b", "path": "./x"}),
        ('grep "def main" in src', "grep", {"pattern": "def main", "path": "src"}),
        ("run ls", "shell", {"command": "ls"}),
        ("run git status --short", "shell", {"command": "git status --short"}),
        ("$ echo 'hi there'", "shell", {"command": "echo 'hi there'"}),
        ("list src", "list", {"path": "src"}),
        ("ls", "list", {}),
        ("list the files in src", "list", {"path": "src"}),
        ("find files *.py", "glob", {"pattern": "*.py"}),
        ("note: the parser leaks", "note", {"text": "the parser leaks", "category": "misc"}),
        ("recall the staging password policy", "recall", {"query": "the staging password policy"}),
        ("read entry #12", "read_entry", {"entry": "#12"}),
    ],
)
def test_it_understands_plain_requests(question: str, name: str, arguments: object) -> None:
    assert wanted(question) == (name, arguments)


@pytest.mark.parametrize("said", ["remember that tea is at five", "Please keep in mind: no GPU."])
def test_what_is_to_be_remembered_was_proposed_already(said: str) -> None:
    answer = respond(request(said, tools=TOOLS))
    assert not answer.calls
    assert "proposed" in answer.text
    assert "/memory" in answer.text


def test_several_files_are_several_calls() -> None:
    calls = respond(request("read a.txt, b.txt and c.txt", tools=TOOLS)).calls
    assert [arguments for _, arguments in calls] == [
        '{"path":"a.txt"}',
        '{"path":"b.txt"}',
        '{"path":"c.txt"}',
    ]


@pytest.mark.parametrize("question", ["run ls", "read README.md", "note: x is y"])
def test_it_never_asks_for_a_tool_it_was_not_given(question: str) -> None:
    answer = respond(request(question))
    assert not answer.calls
    assert "not offered" in answer.text


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("what are zones?", "75 %"),
        ("what is MindStone?", "append-only"),
        ("how do I pin something?", "/pin"),
        ("how do I add a model?", "models list"),
        ("explain pruning", "92 %"),
        ("what is recall?", "by meaning"),
        ("where is the transcript?", "append-only"),
        ("how does memory work?", "consent"),
        ("what is a checkpoint?", "85 %"),
        ("what is undo?", "/undo"),
        ("how do I fork?", "second session"),
    ],
)
def test_it_explains_the_product(question: str, word: str) -> None:
    answer = respond(request(question, tools=TOOLS))
    assert not answer.calls
    assert word in answer.text


@pytest.mark.parametrize("word", [term.word for term in WORDS])
def test_it_explains_every_word_of_the_screen(word: str) -> None:
    for question in (f"what is {word}?", f"what does {word} mean?", f"explain {word}"):
        answer = respond(request(question, tools=TOOLS))
        assert not answer.calls, question
        assert answer.text.startswith("**"), question


def test_it_explains_the_panel_word_by_word() -> None:
    answer = respond(request("what does the panel on the right show?", tools=TOOLS))
    assert all(f"**{term.word}**" in answer.text for term in WORDS)


def test_the_numbers_it_names_are_those_of_the_session() -> None:
    changed = Settings(context=ContextSettings(ceiling=88, trim=71, floor=50, trim_to=40))
    words = glossary(changed)
    assert "88 %" in respond_with(request("explain pruning"), words).text
    assert "71 %" in respond_with(request("what is trim?"), words).text
    assert "92" not in respond_with(request("explain pruning"), words).text


def test_a_question_about_the_past_goes_to_recall_even_if_it_names_a_topic() -> None:
    assert wanted("What did we decide about the model railway?")[0] == "recall"


def test_a_very_long_question_is_looked_up_by_its_beginning() -> None:
    name, values = wanted("What did we decide about " + "the model railway " * 400 + "?")
    assert name == "recall"
    assert len(values["query"]) <= 2_000


def test_it_quotes_recalled_passages_with_their_pointer_before_it_looks_further() -> None:
    block = (
        'Recalled:\n<data-0123456789abcdef origin="turn 1, entry 3, 2026-01-01">\n'
        "My dog is called Rex.\n</data-0123456789abcdef>\n"
        '<data-0123456789abcdef origin="turn 2, entry 9">\nThe roof is green.\n'
        "</data-0123456789abcdef>"
    )
    answer = respond(request("What is my dog called?", block, tools=TOOLS))
    assert not answer.calls
    assert "> My dog is called Rex.\n> — turn 1, entry 3" in answer.text
    assert "roof" not in answer.text


def test_an_irrelevant_block_sends_it_to_recall() -> None:
    block = '<data-0123456789abcdef origin="x">\nThe roof is green.\n</data-0123456789abcdef>'
    answer = respond(request("Which train goes to Basel?", block, tools=TOOLS))
    assert answer.calls[0][0] == "recall"


def test_what_is_still_in_the_window_is_quoted_from_there() -> None:
    said = ("My boat is called Nereid.", {"role": "assistant", "content": "Saved."})
    answer = respond(request(*said, "what is my boat called?"))
    assert "Nereid" in answer.text
    looked = respond(request(*said, "what is my boat called?", tools=TOOLS))
    assert [name for name, _ in looked.calls] == ["recall"], "recall knows the pointer"


def test_an_earlier_question_is_not_an_answer() -> None:
    before = ("what is my boat called?", {"role": "assistant", "content": "I found nothing."})
    assert respond(request(*before, "what is my boat called?", tools=TOOLS)).calls


def test_recall_results_are_quoted_with_pointers_and_end_the_turn() -> None:
    result = (
        '<data-0123456789abcdef origin="recall">\n'
        "[main #7 · turn 3]\nwhat is my boat called?\n\n"
        "[main #2 · turn 1 · 2026-01-01]\nYou should know this:\n\nMy boat is called Nereid.\n\n"
        "[main #40 · turn 9]\nRain.\n</data-0123456789abcdef>"
    )
    exchange = used("recall", '{"query":"boat"}', result)
    answer = respond(request("what is my boat called?", *exchange, tools=TOOLS))
    assert not answer.calls
    assert "Nereid.\n> — main #2 · turn 1 · 2026-01-01" in answer.text
    assert "#7" not in answer.text
    assert "Rain" not in answer.text


def recalled(*pieces: str) -> tuple[Message, Message]:
    """What recall gave back, each piece with its pointer."""
    inside = "\n\n".join(pieces)
    block = f'<data-0123456789abcdef origin="recall">\n{inside}\n</data-0123456789abcdef>'
    return used("recall", '{"query":"x"}', block)


def test_of_what_fits_equally_well_the_newest_is_quoted_first() -> None:
    pieces = (
        "[main #140 · turn 19 · Mara · score 1.23]\nPort 8765.",
        "[main #264 · turn 32 · Mara · score 1.21]\nPort clash: 8765 is taken. Use 8790.",
    )
    text = respond(request("which port is it?", *recalled(*pieces), tools=TOOLS)).text
    assert text.startswith("This was said before:")
    assert text.index("8790") < text.index("> Port 8765.")


@pytest.mark.parametrize("score", ["0.09", "-0.07", "0.40"])
def test_what_hardly_fits_is_not_quoted(score: str) -> None:
    exchange = recalled(f"[main #4 · turn 2 · score {score}]\nThe staging port is 8443.")
    answer = respond(request("what colour is the staging roof in winter?", *exchange, tools=TOOLS))
    assert "8443" not in answer.text
    assert "found nothing" in answer.text


def test_what_recall_is_sure_of_is_quoted() -> None:
    exchange = recalled("[main #4 · turn 2 · score 1.20]\nThe staging port is 8443.")
    answer = respond(request("which port did we settle on last week?", *exchange, tools=TOOLS))
    assert "> The staging port is 8443.\n> — main #4 · turn 2" in answer.text


def test_it_does_not_quote_its_own_quotes() -> None:
    own = "This was said before:\n\n> The staging port is 8443.\n> — main #4"
    exchange = recalled(
        f"[main #9 · turn 3 · score 1.40]\n{own}",
        "[main #4 · turn 2 · score 1.20]\nThe staging port is 8443.",
    )
    answer = respond(request("which staging port is it?", *exchange, tools=TOOLS))
    assert answer.text.count("8443") == 1
    assert answer.text.count("This was said before:") == 1


def test_the_delimiters_of_data_never_show() -> None:
    cut = '<data-0123456789abcdef origin="read a.md">\nhello\n… 200 lines were cut here'
    shown = respond(request("read a.md", *used("read", '{"path":"a.md"}', cut), tools=TOOLS)).text
    quoted = recalled(f"[main #4 · turn 2 · score 1.20]\nport 8443\n{cut}")
    said = respond(request("which port?", *quoted, tools=TOOLS)).text
    assert "data-0123456789abcdef" not in shown + said
    assert "hello" in shown


def test_when_recall_finds_nothing_it_says_so() -> None:
    exchange = used("recall", '{"query":"boat"}', "Nothing was found.")
    answer = respond(request("what is my boat called?", *exchange, tools=TOOLS))
    assert "found nothing" in answer.text


def test_output_is_shown_fenced_and_bounded() -> None:
    inside = "```\n" + "x" * 10_000
    answer = respond(request("read a.md", *used("read", '{"path":"a.md"}', inside), tools=TOOLS))
    assert answer.text.startswith("`read a.md`:\n\n````\n")
    assert len(answer.text) < 5_000


def test_a_recall_block_after_the_results_does_not_hide_them() -> None:
    block = '<data-0123456789abcdef origin="x">\nThe roof is green.\n</data-0123456789abcdef>'
    exchange = used("read", '{"path":"a.md"}', "hello file")
    assert "hello file" in respond(request("read a.md", *exchange, block, tools=TOOLS)).text


@pytest.mark.parametrize("text", ["thanks!", "ok", "Thank you so much", "bye"])
def test_politeness_is_answered_briefly(text: str) -> None:
    answer = respond(request(text, tools=TOOLS))
    assert not answer.calls
    assert len(answer.text) < 60


@pytest.mark.parametrize(
    "text", ["fix the bug in main.py", "can you write a poem?", "please delete everything"]
)
def test_real_work_is_left_to_a_language_model(text: str) -> None:
    answer = respond(request(text, tools=TOOLS))
    assert not answer.calls
    assert "mindstone models" in answer.text


def test_statements_are_acknowledged_without_a_call() -> None:
    answer = respond(request("My boat is called Nereid.", tools=TOOLS))
    assert not answer.calls
    assert "transcript" in answer.text
    assert "/pin" in respond(request("From now on always use tabs.", tools=TOOLS)).text


async def test_it_streams_and_ends_once_and_says_the_same_every_time() -> None:
    asked = request("hello", tools=TOOLS)
    first, second = await hear(GuideProvider(), asked), await hear(GuideProvider(), asked)
    assert first == second
    assert len(first.pieces) > 20
    assert first.finished is not None
    assert first.finished.usage.prompt is None


async def test_call_ids_differ_from_request_to_request() -> None:
    one = await hear(GuideProvider(), request("run ls", tools=TOOLS))
    exchange = used("shell", '{"command":"ls"}', "a")
    two = await hear(GuideProvider(), request("run ls", *exchange, "run ls", tools=TOOLS))
    assert one.calls[0].id != two.calls[0].id


async def test_it_quotes_for_a_summary_and_refuses_to_judge() -> None:
    asked = request("user: we chose blue\nassistant: fine")
    heard = await hear(GuideProvider(), asked, Options(max_tokens=9, purpose="summary"))
    assert "we chose blue" in heard.text
    with pytest.raises(Broken) as broken:
        await hear(GuideProvider(), asked, Options(max_tokens=9, purpose="judge"))
    assert isinstance(broken.value.error, ProviderRefused)


@settings(max_examples=300)
@given(st.text(max_size=300))
def test_any_text_gets_an_answer(text: str) -> None:
    answer = respond(request(text, tools=TOOLS))
    assert answer.text or answer.calls
