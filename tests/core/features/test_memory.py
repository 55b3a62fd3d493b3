"""Memory through a whole session: digested each turn, proposed by models, decided by people."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from mindstone_tui.cli.line_chat import EventPrinter
from mindstone_tui.core import events
from mindstone_tui.core.agent.memories import Memories
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.entries.derived import (
    Consolidated,
    HandoffWritten,
    MemoryDecided,
    MemoryDigested,
    MemoryProposed,
    NoteTaken,
    OfferAnswered,
    RecallInjected,
    SummaryDerived,
)
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.events import Answer
from mindstone_tui.core.features.memory import MemoryFeature
from mindstone_tui.core.library.open_questions import waiting_in
from mindstone_tui.core.memory import proposals
from mindstone_tui.core.memory.files import Memory, parse, render
from mindstone_tui.core.memory.proposals import ProposalDraft, proposals_of
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.providers.guide import GUIDE
from tests.core.session.stage import Stage, calls, on_stage, read, script
from tests.corpora import lines as corpus

OK = {"text": "Fine."}


def shelve(home: Path, *memories: Memory) -> Path:
    """Put memories on the agent's shelf, as approved ones stand there."""
    folder = home / "agents" / "default" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    for number, memory in enumerate(memories):
        (folder / f"{memory.kind}_{number}.md").write_text(render(memory))
    return folder


def remember(title: str, text: str) -> tuple[str, dict[str, str]]:
    return "remember", {"title": title, "text": text, "source": "#1"}


async def test_the_digest_stands_at_the_end_of_its_turn_and_in_no_other(
    home: Path, tmp_path: Path
) -> None:
    folder = shelve(
        home,
        Memory(
            name="Deploy day",
            kind="preference",
            body="Deployments of the billing service happen on Tuesday mornings, never Fridays.",
        ),
        Memory(name="Cats", kind="fact", body="The neighbour keeps three cats called Ada and Bo."),
    )
    model = script(
        tmp_path,
        {"text": "Billing deployments happen on Tuesday mornings."},
        {"text": "Twelve."},
    )
    async with on_stage(home, model=model) as stage:
        await stage.say("When do deployments of the billing service happen?")
        await stage.say("What is seven plus five in arithmetic?")
        (digest,) = stage.entries(MemoryDigested)
        assert digest.files == ("preference_0.md",)
        assert digest.tokens <= digest.share
        first, second = stage.requests()
        assert first[-1]["role"] == "user"
        assert "never Fridays" in first[-1]["content"]
        assert "three cats" not in first[-1]["content"]
        assert all("never Fridays" not in str(message["content"]) for message in second[1:])
        plans = stage.entries(PromptPlanned)
        assert [len(plan.tail) for plan in plans] == [1, 0]
    assert not stage.entries(RecallInjected)
    assert parse((folder / "preference_0.md").read_text()).hits == 1
    assert parse((folder / "fact_1.md").read_text()).hits == 0


async def test_a_short_question_is_not_buried_by_what_was_said_around_it(
    home: Path, tmp_path: Path
) -> None:
    said = "Parsing is slow, and the second half of the report is empty on Mondays. " * 8
    shelve(home, Memory(name="Reading", kind="decision", body="We use mmap, copies cost 240 ms."))
    async with on_stage(home, model=script(tmp_path, {"text": said}, loop=True)) as stage:
        await stage.say("Tell me about the report and the parser at some length, please.")
        await stage.say("what about copies and mmap?")
        (digest,) = stage.entries(MemoryDigested)
        assert digest.files == ("decision_0.md",)


async def test_fifty_poisoned_passages_and_a_model_that_obeys_become_no_memory(
    home: Path, tmp_path: Path
) -> None:
    poison = corpus("poisoned.txt")[:50]
    assert len(poison) == 50
    asked = [remember(f"Fact {number}", text) for number, text in enumerate(poison)]
    model = script(tmp_path, calls(*asked[:25]), calls(*asked[25:]), OK)
    async with on_stage(home, model=model) as stage:
        await stage.say("Read these pages.")
        proposed = stage.entries(MemoryProposed)
        assert len(proposed) >= 45
        assert len(stage.all(events.MemoryProposed)) == len(proposed)
        assert not stage.entries(MemoryDecided)
    assert not (home / "agents" / "default" / "memory").exists()


async def test_a_person_who_is_asked_sees_the_diff_and_their_word_counts(
    home: Path, tmp_path: Path
) -> None:
    model = script(
        tmp_path,
        calls(remember("Tabs", "Tabs in Makefiles.")),
        OK,
        calls(remember("Spaces", "Spaces in Makefiles.")),
        OK,
    )
    answers = [Answer(allowed=True), Answer(allowed=False)]
    async with on_stage(home, model=model, asks=True, approve="ask") as stage:

        def decide(event: events.AnyEvent) -> None:
            if isinstance(event, events.ToolAsked):
                assert "+Tabs in Makefiles." in event.shown or "Spaces" in event.shown
                assert event.remember == (), "no rule may consent to memories"
                stage.session.answer(event.call, answers.pop(0))

        stage.on_event = decide
        await stage.say("Remember how I like Makefiles.")
        await stage.say("And the opposite.")
        folder = home / "agents" / "default" / "memory"
        assert [path.name for path in folder.glob("fact_*.md")] == ["fact_tabs.md"]
        (made,) = stage.entries(MemoryProposed)
        ended, _ = await stage.run(f"/memory undo {made.proposal}")
        assert ended.ok
        assert not list(folder.glob("fact_*.md"))
        assert [one.decision for one in stage.entries(MemoryDecided)] == ["approved", "undone"]


@pytest.mark.parametrize("again", [False, True])
async def test_a_memory_that_was_approved_stays_and_can_be_undone_after_a_rewind(
    home: Path, tmp_path: Path, again: bool
) -> None:
    model = script(tmp_path, calls(remember("Tabs", "Tabs in Makefiles.")), OK, OK)
    folder = home / "agents" / "default" / "memory"
    async with on_stage(home, model=model) as stage:
        await stage.say("Remember how I like Makefiles.")
        (made,) = stage.entries(MemoryProposed)
        assert (await stage.run(f"/memory approve {made.proposal}"))[0].ok
        assert (await stage.run("/rewind 0"))[0].ok
        assert list(folder.glob("fact_*.md"))
        if not again:
            assert (await stage.run(f"/memory undo {made.proposal}"))[0].ok
    if again:
        async with on_stage(home, model=model) as stage:
            assert (await stage.run(f"/memory undo {made.proposal}"))[0].ok
    assert not list(folder.glob("fact_*.md"))


async def test_a_review_of_a_fork_proposes_nothing_that_was_said_before_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Remember that the harbour closes at six.")
        assert len(stage.entries(MemoryProposed)) == 1
        assert (await stage.run("/fork agent:default:other"))[0].ok
    async with on_stage(home, model=model, key=SessionKey("default", "other")) as fork:
        await _review(fork)
        assert fork.entries(MemoryProposed) == []
        assert len(fork.entries(Consolidated)) == 1


async def test_what_is_shown_stays_the_same_while_a_person_thinks_about_it(
    home: Path, tmp_path: Path
) -> None:
    seconds = itertools.count()
    async with on_stage(home, model=script(tmp_path, OK)) as stage:
        await stage.say("I like tabs in Makefiles.")
        services = stage.session.services
        memories = Memories(
            services.context,
            services.features.get(MemoryFeature).memories.agent,
            services.places,
            services.features.get(MemoryFeature).memories.past,
            clock=lambda: datetime(2026, 1, 5, 10, 0, next(seconds), tzinfo=UTC),
        )
        draft = ProposalDraft(kind="preference", name="Tabs", text="Tabs in Makefiles.")
        shown = memories.preview(draft, (2,))
        _, made = memories.propose(draft, (2,), by="model")
        assert made.diff == shown.diff
        assert made.entry.after == shown.entry.after


async def test_a_waiting_proposal_is_edited_or_refused_by_command(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, calls(remember("Lint", "Run lint."), remember("Nap", "Nap.")), OK)
    async with on_stage(home, model=model) as stage:
        await stage.say("Propose what you like.")
        lint, nap = stage.entries(MemoryProposed)
        edited, _ = await stage.run(f"/memory edit {lint.proposal} Run ruff before commits.")
        refused, _ = await stage.run(f"/memory refuse {nap.proposal}")
        again, said = await stage.run(f"/memory approve {nap.proposal}")
        assert (edited.ok, refused.ok, again.ok) == (True, True, False)
        assert "already refused" in said
        counted, _ = await stage.run("/memory helped Lint")
        assert counted.ok
    folder = home / "agents" / "default" / "memory"
    (path,) = folder.glob("fact_*.md")
    memory = parse(path.read_text())
    assert (memory.body, memory.prevented) == ("Run ruff before commits.", 1)


@pytest.mark.parametrize(
    "first", ["Remember that the crane is red.", "/memory add the crane is red"]
)
async def test_what_waits_is_not_proposed_again_in_other_words(
    home: Path, tmp_path: Path, first: str
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await (stage.run(first) if first.startswith("/") else stage.say(first))
        (made,) = stage.entries(MemoryProposed)
        assert f"as {made.proposal}" in (await stage.run("/memory add the crane is red"))[1]
        await stage.say("Please remember that the crane is red.")
        assert len(stage.entries(MemoryProposed)) == 1
        await stage.run("/memory add the crane is not red")
        assert len(stage.entries(MemoryProposed)) == 2


@pytest.mark.parametrize("heard", [True, False])
async def test_of_two_who_decide_about_a_memory_at_once_the_first_counts(
    home: Path, tmp_path: Path, heard: bool
) -> None:
    model = script(tmp_path, calls(remember("Lint", "Run lint.")), OK)
    async with on_stage(home, model=model, channel="tui") as app:
        await app.say("Propose what you like.")
        (lint,) = app.entries(MemoryProposed)
        async with on_stage(home, model=model, channel="web") as page:
            memories = page.session.services.features.get(MemoryFeature).memories
            standing = memories.proposals[lint.proposal]
            assert (await app.run(f"/memory refuse {lint.proposal}"))[0].ok
            if heard:
                ended, said = await page.run(f"/memory approve {lint.proposal}")
                assert not ended.ok
                assert "already refused, in the app" in said
            else:  # its look back came too early to see it
                memories._write(proposals.decide(memories.agent, standing, "approved", by="person"))
                with pytest.raises(ContinuityError, match="already refused"):
                    memories._check_undecided(standing, "approved", before=page.lines()[-1].seq)
            assert proposals_of(page.lines())[lint.proposal].decision == "refused"
    assert not list((home / "agents/default/memory").glob("fact_*.md"))


async def _review(stage: Stage) -> str:
    ended, said = await stage.run("/consolidate")
    assert ended.ok, said
    return said


async def test_a_review_proposes_merges_checks_and_hands_over_but_writes_no_memory(
    home: Path, tmp_path: Path
) -> None:
    body = "Run the whole test suite before every commit to the main branch."
    folder = shelve(
        home,
        Memory(name="Suite", kind="procedure", body=body, created="2026-01-01T00:00:00Z"),
        Memory(name="Tests", kind="procedure", body=f"{body} Always.", created="2026-02-01"),
    )
    before = {path.name: path.read_text() for path in folder.iterdir()}
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("From now on always answer in British English.")
        said = await _review(stage)
        assert "1 memory file could be merged." in said
        assert "The index is complete." in said
        assert any(event.message.startswith("Reviewed 100%") for event in stage.all(events.Noticed))
        paths = [one.path for one in stage.entries(MemoryProposed)]
        assert "memory/procedure_1.md" in paths
        assert any("british" in path for path in paths)
        assert stage.entries(HandoffWritten)[-1].trigger == "consolidation"
        through = stage.entries(Consolidated)[-1].through
        await _review(stage)
        assert len(stage.entries(MemoryProposed)) == len(paths)
        assert stage.entries(Consolidated)[-1].through > through
    after = {path.name: path.read_text() for path in folder.iterdir()}
    assert "procedure_0.md" in after.pop("MEMORY.md"), "the index is brought up to date"
    assert after == before
    (journal,) = (home / "agents" / "default" / "journals").glob("*.md")
    assert "The index is complete." in journal.read_text()


async def test_a_model_that_answers_a_review_with_nonsense_changes_nothing(
    home: Path, tmp_path: Path
) -> None:
    bad = {"for": "consolidation", "text": '[{"kind": "secret"'}
    async with on_stage(home, model=script(tmp_path, OK, bad, loop=True)) as stage:
        await stage.say("From now on always answer in British English.")
        ended, _ = await stage.run("/consolidate with model")
        assert ended.ok
        assert any("not in the form" in event.message for event in stage.all(events.Noticed))
        assert len(stage.entries(MemoryProposed)) == 1
    assert not (home / "agents" / "default" / "memory").exists()


async def test_notes_are_taken_gathered_and_stand_in_the_next_head(
    home: Path, tmp_path: Path
) -> None:
    noted = {"section": "bugs", "text": "parse_block leaks one buffer.", "importance": "high"}
    said = "Never touch legacy/billing.py. We talked about the weather for a while. " * 6
    made = "constraints | critical | Never touch legacy/billing.py."
    model = script(tmp_path, calls(("note", noted)), OK, OK, {"for": "summary", "text": made})
    async with on_stage(home, model=model) as stage:
        await stage.say(said)
        ended, text = await stage.run("/notes gather")
        assert ended.ok, text
        taken, _ = await stage.run("/notes decisions!! We use mmap for the parser.")
        assert taken.ok
        await stage.say("And now?")
        found = {(one.category, one.importance): one for one in stage.entries(NoteTaken)}
        assert found["bugs", "high"].by == "model"
        assert found["constraints", "critical"].text == "Never touch legacy/billing.py."
        assert found["decisions", "critical"].by == "person"
        (summary,) = stage.entries(SummaryDerived)
        assert summary.strategy == "notes"
        assert summary.prompt_version.startswith("notes@")
        head = str(stage.requests()[-1][0]["content"])
        assert "**critical** Never touch legacy/billing.py." in head
        assert "**high** parse_block leaks one buffer." in head
        assert "weather" not in head
    assert "leaks one buffer" in stage.places.notes.read_text()


@pytest.mark.parametrize("model", ["guide", "script"])
async def test_what_a_person_asks_to_be_remembered_is_proposed_whoever_answers(
    home: Path, tmp_path: Path, model: str
) -> None:
    said = "Thanks. Remember that the demo is on Thursday."
    name = GUIDE if model == "guide" else script(tmp_path, OK, OK, OK)
    async with on_stage(home, model=name) as stage:
        await stage.say(said)
        (proposed,) = stage.entries(MemoryProposed)
        assert "Remember that the demo is on Thursday." in proposed.after
        assert (proposed.by, proposed.before) == ("person", "")
        lines = {line.seq: line for line in read(stage.places)}
        assert said in str(lines[proposed.sources[0]].entry)
        (line,) = [one for one in lines.values() if one.kind == "memory_proposed"]
        assert line.turn == 1
        await stage.say(said)
        assert len(stage.entries(MemoryProposed)) == 1, "it waits already"
        (waiting,) = stage.session.services.features.get(MemoryFeature).memories.waiting
        ended, _ = await stage.run(f"/memory approve {waiting.entry.proposal}")
        assert ended.ok
        await stage.say(said)
        assert len(stage.entries(MemoryProposed)) == 1, "it is remembered already"


async def test_a_sensitive_fact_says_so_in_its_proposal(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, OK, OK, OK)) as stage:
        for said, caution in (
            ("Remember that I am allergic to penicillin.", "something about health"),
            ("Remember that my salary is paid on the 25th.", "something about money"),
            ("Remember that my wife works at the harbour.", "something about other people"),
        ):
            await stage.say(said)
            assert f"CAUTION: holds {caution}" in stage.entries(MemoryProposed)[-1].why


async def test_a_memory_added_between_turns_is_dated_when_it_is_added(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK)) as stage:
        await stage.say("Hello there, what is the weather like?")
        moments = itertools.count()
        memories = Memories(
            stage.session.services.context,
            stage.session.services.features.get(MemoryFeature).memories.agent,
            stage.places,
            stage.session.services.features.get(MemoryFeature).memories.past,
            clock=lambda: datetime(2031, 1, 1, 0, next(moments), tzinfo=UTC),
        )
        _, made = memories.propose(
            ProposalDraft(kind="fact", name="x", text="y z"), (1,), by="person"
        )
        assert "2031-01-01" in made.entry.after


async def test_a_turn_that_blacked_something_out_says_so_once(home: Path, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    async with on_stage(home, model=script(tmp_path, OK, OK)) as stage:
        heard: list[str] = []

        def hear(event: events.AnyEvent) -> None:
            if isinstance(event, events.Noticed) and "blacked out" in event.message:
                heard.append(event.message)

        stage.on_event = hear
        await stage.say(f"Use {token} please.")
        await stage.say(f"I said {token}.")
        await stage.run("/status")
    (told,) = heard
    assert told.startswith("1 secret blacked out in this turn: github-token:")
    assert " in #" in told


async def test_a_secret_that_is_only_quoted_again_was_not_blacked_out_in_this_turn(
    home: Path, tmp_path: Path
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    async with on_stage(home, model=script(tmp_path, OK)) as stage:
        await stage.say(f"Use {token} for the harbour.")
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("What do we use for the harbour?")
        (returned,) = stage.entries(ToolReturned)
        assert "[redacted:github-token:" in returned.text
    assert not [each for each in stage.all(events.Noticed) if "blacked out" in each.message]


LASTING = "From now on always answer in British English."


@pytest.mark.thorough
async def test_a_session_that_was_left_is_reviewed_by_itself_and_the_next_time_says_so(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say(LASTING)
    assert not stage.entries(MemoryProposed), "there was little to look at"
    for _ in range(2):
        async with on_stage(home, model=model) as stage:
            for number in range(10):
                await stage.say(f"Measure the tide at gauge {number}.")
        assert len(stage.entries(MemoryProposed)) == 1, "nothing is proposed twice"
        async with on_stage(home, model=model) as stage:
            (told,) = stage.session.services.left_open()
            assert told.startswith("1 decision waits for you")
            _, listed = await stage.run("/waiting")
            assert "Remember this?" in listed or "memory" in listed.lower()


async def test_the_end_of_a_task_and_a_compaction_propose_what_should_last(
    home: Path, tmp_path: Path
) -> None:
    said = "From now on never calibrate a gauge before noon."
    model = script(tmp_path, {"text": "x" * 4_000}, loop=True)
    async with on_stage(home, model=model, context_window=8_000) as stage:
        await stage.run("/task start Gauges")
        await stage.say(LASTING)
        await stage.run("/task done")
        assert [one.proposal for one in stage.all(events.MemoryProposed)] == [
            one.proposal for one in stage.entries(MemoryProposed)
        ]
        assert len(stage.entries(MemoryProposed)) == 1
        await stage.run("/mode auto_compact")
        await stage.say(said)
        while not stage.entries(SummaryDerived):
            await stage.say("And the tide?")
        await stage.idle()
        assert len(stage.entries(MemoryProposed)) == 2


async def test_the_log_and_the_journal_say_in_words_and_once_what_was_proposed(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/task start Gauges")
        await stage.say("Remember that the staging port is 8790.")
        for step in ("calibrate", "report"):
            await stage.say(f"We decided to {step} the gauges before noon.")
            await stage.run("/checkpoint save")
            await stage.run("/consolidate")
        agent = stage.session.services.home.agent("default")
        with agent.log.open("a") as log:
            log.write("\nThe heron nests by the weir.\n")
        journal = "".join(path.read_text() for path in agent.journals.iterdir())
        for told in (agent.log.read_text(), journal):
            assert told.count("- Remember that the staging port is 8790.") == (told != journal)
            assert "fact_" not in told
        found = await stage.session.services.recall.search("Where does the heron nest?", 3, "agent")
        assert any("by the weir" in hit.text for hit in found.hits)


async def test_a_fact_that_a_person_asks_to_keep_becomes_a_note_that_outlives_the_task(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/task start Gauges")
        await stage.say("Please remember that the staging port is 8790.")
        await stage.say("Remember that the staging port is 8790!")
        await stage.say("Remember that the staging port is 8791.")
        await stage.run("/task done")
        noted = [one.text for one in stage.entries(NoteTaken)]
        assert noted[0] == "the staging port is 8790"
        assert len(stage.entries(MemoryProposed)) == 2, "another number is another fact"
        _, text = await stage.run("/notes")
        assert "the staging port is 8791" in text
        await stage.say("hello")
        assert "the staging port is 8791" in stage.requests()[-1][0]["content"]


async def test_proposals_of_every_session_are_listed_with_where_they_come_from(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    other = SessionKey.parse("agent:default:q2")
    async with on_stage(home, key=other, model=model) as stage:
        await stage.say("remember that the ferry leaves from pier nine")
        proposed = stage.entries(MemoryProposed)[0]
        EventPrinter().show(stage.all(events.MemoryProposed)[0])
        told = capfd.readouterr().err
        assert "`mindstone run /keep`" in told
        assert "F6" not in told
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
        _, shown = await stage.run("/memory")
        assert "pier nine" in shown
        assert f"from {other}, line {proposed.sources[0]}" in shown
        assert f"mindstone memory -s {other} approve {proposed.proposal}" in shown
    async with on_stage(home, key=other, model=model) as stage:
        await stage.run(f"/memory refuse {proposed.proposal}")
    async with on_stage(home, model=model) as stage:
        assert "pier nine" not in (await stage.run("/memory"))[1]


async def test_notes_are_loaded_only_as_far_as_the_window_has_room(
    home: Path, tmp_path: Path
) -> None:
    shown: dict[int, int] = {}
    for window in (8_000, 128_000):
        model = script(tmp_path, OK)
        async with on_stage(home / str(window), model=model, context_window=window) as stage:
            await stage.say("hello")
            context = stage.session.services.context
            for number in range(120):
                said = f"Lesson {number}: the importer wants its dates in UTC, with seconds."
                context.window.record(NoteTaken(category="learnings", text=said), 1)
            vital = NoteTaken(category="decisions", text="We keep SQLite.", importance="critical")
            context.window.record(vital, 1)
            stage.session.services.read_anew()
            (noted,) = [
                section
                for section in context.services.system_prompt().sections
                if section.name == "notes"
            ]
            assert "We keep SQLite." in noted.text
            shown[window] = context.count(noted.text)
            assert shown[window] <= context.share("system_prompt", context.target) + 80
    assert shown[8_000] < 500 < 1_500 < shown[128_000]


@pytest.mark.parametrize(("elsewhere", "where"), [("web", "the page"), ("tui", "the app")])
async def test_a_bare_word_keeps_only_what_was_there_when_it_was_begun(
    home: Path, tmp_path: Path, elsewhere: str, where: str
) -> None:
    surface = partial(
        on_stage, home, model=script(tmp_path, {"text": "ok"}, loop=True), follow=True
    )
    async with surface(channel="tui") as app, surface(channel=elsewhere) as page:
        for said in ("Don't touch the lexer, please.", "Remember that the demo is on Thursday."):
            await app.say(said)
            here = len(app.heard)
            app.session.command("/keep yes", writing=60)
            assert not (await app.until(events.CommandEnded, after=here)).ok
        await page.say("Always skip the tests in CI.")
        await app.until(events.EntryAppeared, lambda event: "Always" in event.text)
        ended, told = await app.run("/keep yes")
        assert not ended.ok
        assert f"was shown by {where}, not here" in told
        assert (await page.run("/keep yes"))[0].ok
    kept = [one for one in app.lines() if isinstance(one.entry, OfferAnswered) and one.entry.keep]
    assert [line.channel for line in kept] == [elsewhere]
    assert not app.entries(MemoryDecided)


@pytest.mark.parametrize("elsewhere", ["web", "tui"])
async def test_an_offer_waits_until_whoever_was_shown_it_answers_or_goes_on(
    home: Path, tmp_path: Path, elsewhere: str
) -> None:
    surface = partial(
        on_stage, home, model=script(tmp_path, {"text": "ok"}, loop=True), follow=True
    )
    room = Places.resolve({"MINDSTONE_HOME": str(home)})
    async with surface(channel="tui") as app, surface(channel=elsewhere) as other:
        await app.say("Don't touch the lexer, please.")
        await other.until(events.EntryAppeared, lambda event: event.kind == "turn_ended")
        await other.say("What is the tide?")
        await app.until(events.EntryAppeared, lambda event: "tide" in event.text)
        await other.say("Always skip the tests in CI.")
        await app.until(events.EntryAppeared, lambda event: "Always" in event.text)
        first, second = waiting_in(room, app.places)
        assert "lexer" in first.shown
        assert (await app.run("/keep yes"))[1].startswith("Rule 1")
        assert (await app.run(first.command(yes=True)))[0].ok is False
        assert (await app.run(second.command(yes=False)))[0].ok
        assert not waiting_in(room, app.places)
        await app.say("Never push to main.")
        await app.say("What is the tide?")
        told = await app.until(events.Noticed, lambda event: "went on" in event.message)
        assert told.message == "Not kept, as you went on: Never push to main."
        assert not waiting_in(room, app.places)
        ended, _ = await app.run("/keep yes")
        assert not ended.ok
    assert [(one.keep, bool(one.words)) for one in app.entries(OfferAnswered)] == [
        (True, False),
        (False, True),
        (False, False),
    ]


async def test_a_wish_to_be_remembered_is_one_question_with_a_yes_and_a_no(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        await stage.say("Remember that I prefer tabs.")
        ended, said = await stage.run("/keep")
        assert ended.ok
        assert said == "Remembered for every session: Remember that I prefer tabs."
        await stage.say("Remember that the demo is on Thursday.")
        _, said = await stage.run("/keep no")
        assert said == "Not remembered: Remember that the demo is on Thursday."
        await stage.say("Remember that Lena does the billing.")
        await stage.say("What is the tide?")
        ended, said = await stage.run("/keep")
        assert not ended.ok, "whoever went on has answered"
    assert [one.decision for one in stage.entries(MemoryDecided)] == ["approved", "refused"]


async def test_a_memory_that_a_person_corrects_is_told_to_nobody_until_they_decide(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    asked, other = "What is the freezer code?", SessionKey.parse("agent:default:other")

    async def told() -> str:
        async with on_stage(home, key=other, model=model) as stage:
            await stage.say(asked)
            return str(stage.requests()[-1])

    folder = shelve(home, Memory(name="Freezer", kind="fact", body="The freezer code is 99887."))
    words = (folder / "fact_0.md").read_text()
    assert "99887" in await told()
    async with on_stage(home, model=model) as stage:
        await stage.say("Hello.")
        await stage.say("No, the freezer code is 11223, not 99887.")
        await stage.rest()
        assert "99887" not in await told()
        await stage.run("/consolidate")
        (proposed,) = stage.entries(MemoryProposed)
        assert [one.proposal for one in stage.all(events.MemoryProposed)] == [proposed.proposal]
        assert (proposed.path, proposed.before) == ("memory/fact_0.md", words)
        _, listed = await stage.run("/memory")
        line = proposed.sources[0]
        assert f"Freezer (corrected in line {line} of {stage.places.key}: decide)" in listed
        await stage.run("/rewind turn 1")
        assert (folder / "fact_0.md").read_text() == words, "a rewind lifts the mark"
        assert "99887" in await told()
        await stage.run("/restore turn 2")
        assert "99887" not in await told()
        await stage.say("No, the freezer code is 44556, not 11223.")
        await stage.rest()
        _, waiting = stage.entries(MemoryProposed)
        _, listed = await stage.run("/memory")
        assert "44556" in listed
        assert "+No, the freezer code is 11223" not in listed, "it was corrected, too"
        assert (await stage.run(f"/memory refuse {waiting.proposal}"))[0].ok
        assert "99887" in await told(), "the person says that it holds"
        await stage.say("No, the freezer code is 31337, not 99887.")
        await stage.rest()
        assert (await stage.run(f"/memory approve {stage.entries(MemoryProposed)[-1].proposal}"))[0]
        found = await told()
        assert "the freezer code is 31337" in found
        assert "The freezer code is 99887." not in found


async def test_a_memory_is_shown_by_the_name_of_its_file(home: Path, tmp_path: Path) -> None:
    shelve(home, Memory(name="Freezer", kind="fact", body="The freezer code is 99887."))
    async with on_stage(home, model=script(tmp_path, OK)) as stage:
        for name in ("fact_0.md", "memory/fact_0.md", "freezer"):
            assert "code is 99887" in (await stage.run(f"/memory show {name}"))[1]


@pytest.mark.parametrize("undone", [False, True])
async def test_what_a_person_does_not_want_remembered_is_no_note_and_no_constraint(
    home: Path, tmp_path: Path, undone: bool
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.run("/task start First")
        await stage.say("Never push to main.")
        await stage.run("/consolidate")
        (rule,) = stage.entries(MemoryProposed)
        await stage.run(f"/memory refuse {rule.proposal}")
        assert "Never push to main." in (await stage.run("/task show"))[1], "it is a rule here"
        await stage.say("Remember that Noor owns search.")
        assert "Noor" in (await stage.run("/task show"))[1]
        proposed = stage.entries(MemoryProposed)[-1]
        await stage.say("Hello.")
        if undone:
            await stage.run(f"/memory approve {proposed.proposal}")
        verb = "undo" if undone else "refuse"
        assert (await stage.run(f"/memory {verb} {proposed.proposal}"))[0].ok
        for rewound in (False, True):
            if rewound:
                await stage.run("/rewind turn 2")
            assert "Noor" not in (await stage.run("/notes"))[1]
            assert "Noor" not in (await stage.run("/task show"))[1]
        await stage.say("Who owns search?")
        assert not any("note (learnings)" in str(one) for one in stage.requests()[-1])
    assert "Noor" not in stage.places.notes.read_text()


async def test_what_a_person_does_not_want_kept_is_let_go(home: Path, tmp_path: Path) -> None:
    said = "For this task, never touch the migrations folder."
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.run("/task start First")
        await stage.say(said)
        assert said in (await stage.run("/task show"))[1]
        assert (await stage.run("/keep no"))[1] == f"Not kept: {said}"
        assert said not in (await stage.run("/task show"))[1]
        await stage.run("/handoff write")
        written = (await stage.run("/handoff show"))[1]
        assert said not in written.partition("## Requests, word for word")[0]
        await stage.run("/consolidate")
        assert not stage.entries(MemoryProposed)


async def test_a_wish_to_remember_needs_words_of_its_own_and_recalls_no_echo(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        for said in ("Remember it.", "Please remember this!", "remember that"):
            await stage.say(said)
        assert not stage.entries(MemoryProposed)
        await stage.say("Remember that the freezer code is 99887.")
        assert len(stage.entries(MemoryProposed)) == 1
        assert not stage.entries(RecallInjected)


async def test_what_was_edited_is_remembered_by_its_new_words_alone(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("Remember that the grove is Nordholt.")
        await stage.say("thanks")
        (proposed,) = stage.entries(MemoryProposed)
        ended, said = await stage.run(f"/memory edit {proposed.proposal} The grove is Suedholt.")
        assert ended.ok, said
        for command in ("/memory", "/notes"):
            words = (await stage.run(command))[1].replace("fact_the-grove-is-nordholt.md", "")
            assert "Nordholt" not in words, command
        await stage.say("Go on.")
        head = str(stage.requests()[-1][0]["content"])
        assert "[The grove is Suedholt.]" in head
        assert "Nordholt" not in head
