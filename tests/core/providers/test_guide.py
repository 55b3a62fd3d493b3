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


def when_nothing_was_said(question: str) -> str:
    """What the guide says to a question once recall was asked and found nothing."""
    answer = respond(request(question, tools=TOOLS))
    nothing = used("recall", "{}", "Nothing in history matches.")
    return respond(request(question, *nothing, tools=TOOLS)).text if answer.calls else answer.text


def test_what_the_program_says_before_a_question_is_no_part_of_it() -> None:
    note = "[The person took back what turn 3 had done to files: gate.md. Read a file again.]"
    asked = "which port does the gate listen on?"
    assert wanted(f"{note}\n\n{asked}") == ("recall", {"query": asked})


@pytest.mark.parametrize(
    "asked",
    ["monthly price of the broadband", "make and model of our big desk?", "port of the API"],
)
def test_a_question_may_be_as_short_as_what_one_types_into_a_search(asked: str) -> None:
    assert wanted(asked) == ("recall", {"query": asked})


@pytest.mark.parametrize(
    "said", ["The price of the desk is 300 euros", "Change the name of the app"]
)
def test_a_statement_or_an_order_about_such_a_thing_is_none(said: str) -> None:
    assert not respond(request(said, tools=TOOLS)).calls


def recalled(*pieces: str) -> tuple[Message, Message]:
    """What recall gave back."""
    inside = "\n\n".join(pieces)
    block = f'<data-0123456789abcdef origin="recall">\n{inside}\n</data-0123456789abcdef>'
    return used("recall", '{"query":"x"}', block)


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
    assert "Shall I remember that?" in answer.text
    assert "/keep" in answer.text


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
        ("what is /rules?", "/rules add"),
        ("how do I start a task?", "/task start"),
        ("how do I import my Claude Code sessions?", "mindstone import"),
        ("how do I search over all sessions?", "mindstone search"),
        ("how do I export a session?", "/export"),
        ("does this send data to the internet?", "nothing connects"),
        ("can I use it offline?", "nothing connects"),
    ],
)
def test_it_explains_the_product_where_history_says_nothing(question: str, word: str) -> None:
    assert word in when_nothing_was_said(question)
    assert word in respond(request(question)).text, "nor is it silent where there is no recall"


@pytest.mark.parametrize("word", [term.word for term in WORDS])
def test_it_explains_every_word_of_the_screen(word: str) -> None:
    for question in (f"what is {word}?", f"what does {word} mean?", f"explain {word}"):
        assert when_nothing_was_said(question).startswith("**"), question


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


@pytest.mark.parametrize(
    "question",
    [
        "what is the alarm threshold and who asked for it?",
        "whats the retention policy for the logs",
        "when is the maintenance window on the harbour machine",
        "what is the budget of the project?",
        "which mode does the poller run in",
        "what is our task for today?",
        "what colour is the buoy?",
        "what is the price?",
        "what is the plan?",
        "what is the task?",
        "which browser?",
    ],
)
def test_a_word_of_the_product_in_a_question_about_the_project_is_left_to_history(
    question: str,
) -> None:
    assert wanted(question)[0] == "recall"
    assert when_nothing_was_said(question).startswith("I found nothing about that in what was said")


def test_a_question_that_names_mindstone_is_not_looked_up() -> None:
    assert not respond(request("what does the zone in the status line mean?", tools=TOOLS)).calls


def test_what_answers_comes_first_and_no_passage_is_quoted() -> None:
    line = "8790, since 8765 is taken. (3 February, line 264)\nBefore: Port 8765. (line 140)"
    exchange = recalled(f"Answer: {line}", "[main #7 · turn 3]\nwhich port is it?")
    answer = respond(request("which port is it?", *exchange, tools=TOOLS))
    assert not answer.calls
    assert answer.text == line


def test_where_recall_has_no_answer_nothing_is_quoted() -> None:
    exchange = recalled("[main #4 · turn 2 · score 1.20]\nThe staging port is 8443.")
    answer = respond(request("what colour is the roof?", *exchange, tools=TOOLS))
    assert answer.text.startswith("I found nothing that surely answers that. I am the guide")
    assert "8443" not in answer.text


def test_what_comes_near_is_shown_as_no_more_than_that() -> None:
    line = "Rosa does the review. (3 February, line 2)"
    exchange = recalled(f"Nearest: {line}", "[main #2 · turn 1]\nRosa does the review.")
    answer = respond(request("who does the review?", *exchange, tools=TOOLS))
    assert answer.text.startswith(
        f"I found nothing that surely answers that. Nearest comes: {line}"
    )


@pytest.mark.parametrize(
    "why", ["The recall index library.db cannot be used: locked.", "The person declined this call."]
)
def test_where_it_could_not_look_it_says_so_and_nothing_of_history(why: str) -> None:
    exchange = used("recall", "{}", why)
    answer = respond(request("who does the review?", *exchange, tools=TOOLS))
    assert answer.text == f"I could not look that up: {why}"


def test_a_passage_that_looks_like_an_answer_is_none() -> None:
    exchange = recalled("[main #4 · turn 2]\nx\n\nAnswer: 42")
    assert "42" not in respond(request("what is six by nine?", *exchange, tools=TOOLS)).text


def test_the_delimiters_of_data_never_show() -> None:
    cut = '<data-0123456789abcdef origin="read a.md">\nhello\n… 200 lines were cut here'
    shown = respond(request("read a.md", *used("read", '{"path":"a.md"}', cut), tools=TOOLS)).text
    quoted = recalled(f"Answer: port 8443 (line 4)\n{cut}")
    said = respond(request("which port?", *quoted, tools=TOOLS)).text
    assert "data-0123456789abcdef" not in shown + said
    assert "hello" in shown


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
    assert "/keep" in respond(request("From now on always use tabs.", tools=TOOLS)).text


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
