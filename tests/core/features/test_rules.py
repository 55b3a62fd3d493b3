"""Rules hold in turns: refused with the person's words, in every prompt, across sessions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core import errors
from mindstone_tui.core.entries import Span
from mindstone_tui.core.entries.conversation import ToolRefused, ToolReturned
from mindstone_tui.core.entries.derived import (
    HandoffWritten,
    MemoryProposed,
    OfferAnswered,
    RuleFired,
    RuleSet,
)
from mindstone_tui.core.events import Answer, ContextReported, ToolAsked
from mindstone_tui.core.features.rules import tried, why
from mindstone_tui.core.interchange.export.story import StorySource, outcomes
from mindstone_tui.core.library.lease import appending
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.rules.book import RuleBook, StandingRule, with_those_in
from mindstone_tui.core.rules.checks import Deed, SeenCommand, verdict_of
from mindstone_tui.core.rules.grammar import compile_rule
from mindstone_tui.core.shared.sync import sync
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.history_store import FileStore
from tests.core.interchange.helpers import FIXTURES, take_over
from tests.core.session.stage import calls, on_stage, script

NEVER = "Never force push"
OTHER = SessionKey.parse("agent:default:other")


async def test_a_call_that_breaks_a_rule_is_refused_with_the_persons_words(
    home: Path, tmp_path: Path
) -> None:
    force = calls(("shell", {"command": "git push --force"}))
    edit = calls(("write", {"path": "vendor/a.c", "text": "x"}))
    model = script(tmp_path, force, {"text": "Not pushed."}, edit, {"text": "Not written."})
    async with on_stage(home, model=model, approve="auto-edit") as stage:
        await stage.run(f"/rules add {NEVER}")
        await stage.run("/rules add Never edit files under vendor/")
        await stage.say("push it")
        await stage.say("and the vendored file")
        _, report = await stage.run("/rules report")
        assert "refused 1, asked 0" in report
        _, told = await stage.run("/why turn 1")
        assert "Decisions in turn 1:\n  shell: git push --force · Declined by your rule" in told
    set_at = [line.seq for line in stage.lines() if line.kind == "rule_set"]
    first, second = stage.entries(ToolRefused)
    assert f"line {set_at[0]} of main" in first.why
    assert (first.by, second.by) == ("your rule", "your rule")
    assert NEVER in first.why
    assert [one.number for one in stage.entries(RuleFired)] == [1, 2]
    assert all(one.status == "refused" for one in stage.entries(ToolReturned))
    assert not (tmp_path / "vendor").exists()
    assert f"1. {NEVER}" in stage.requests()[-1][0]["content"]


async def test_the_report_counts_other_programs_sessions_and_their_compactions(
    home: Path, tmp_path: Path
) -> None:
    mirror = SessionKey("default", "claude-code-s1")
    model = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, key=mirror, model=model) as stage:
        await stage.say("hello")
    own = Places.resolve({"MINDSTONE_HOME": str(home)}).session(mirror)
    fired = RuleFired(number=1, call="c1", verdict="deny")
    with appending(own, str) as transcript:
        assert transcript is not None
        transcript.append(fired)
        covers = Span(0, 1)
        for trigger in ("pre_compact", "session_end"):
            letter = HandoffWritten(path="x", sha256="x", covers=covers, trigger=trigger)
            transcript.append(letter)
        transcript.append(fired)
    async with on_stage(home, model=model) as stage:
        await stage.run(f"/rules add {NEVER} --everywhere")
        await stage.run("/rules add Never rebase")
        _, report = await stage.run("/rules report")
    rows = [" ".join(row.split()) for row in report.splitlines()]
    assert rows == [
        f"1 refused 2, asked 0 {NEVER}",
        f"1 in {mirror.main}",
        f"1 in {mirror.main} after compaction 1",
        "2 never spoke Never rebase",
    ]


def files_with(text: str, folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


async def test_a_credential_in_a_rule_is_refused_and_written_nowhere(
    home: Path, tmp_path: Path
) -> None:
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        ended, said = await stage.run(f"/rules add Never use `{key}`")
        assert not ended.ok
        assert "credential" in said
        await stage.say("hello")
    assert files_with(key, home) == []


async def test_a_rule_reaches_as_far_as_it_was_set_for_until_it_is_retired(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/rules add Never rebase")
        await stage.run(f"/rules add {NEVER} --everywhere")
    async with on_stage(home, key=OTHER, model=model) as other:
        await other.say("hello")
        head = other.requests()[-1][0]["content"]
        assert NEVER in head
        assert "Never rebase" not in head
        ended, _ = await other.run("/rules retire 2")
        assert ended.ok
        ended, said = await other.run("/rules retire 2")
        assert not ended.ok
        assert "No rule 2 stands" in said
        await other.say("again")
        assert NEVER not in other.requests()[-1][0]["content"]


async def test_a_rule_that_was_kept_when_it_was_offered_is_checked(
    home: Path, tmp_path: Path
) -> None:
    push = calls(("shell", {"command": "git push origin main"}))
    async with on_stage(
        home, model=script(tmp_path, {"text": "ok"}, push, {"text": "no"})
    ) as stage:
        await stage.say("Please don't push to main.")
        await stage.run("/keep")
        await stage.say("push it anyway")
    [kept] = stage.entries(RuleSet)
    assert (kept.words, kept.scope) == ("Please don't push to main.", "session")
    assert [one.by for one in stage.entries(ToolRefused)] == ["your rule"]


async def test_a_rule_that_is_set_again_with_another_value_stands_instead(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Gut."}, loop=True)) as stage:
        await stage.run("/rules add Never force push")
        await stage.run("/rules add Always answer in German. --everywhere")
        for words in ("Always answer in German.", "Answer in English from now on."):
            await stage.say(words)
            said = (await stage.run("/keep"))[1]
        assert "Rule 3 stands no longer: Always answer in German." in said
        assert (await stage.run("/rules add Never push at all"))[0].ok
        await stage.run("/task start Paint the pier")
        await stage.run("/checkpoint save")
        binding = (await stage.run("/checkpoint show"))[1]
        await stage.say("go on")
        prompt = str(stage.requests()[-1][0]["content"])
    assert "1. Never force push" in prompt  # what is checked stands until it is retired
    assert "2. Always answer" in prompt  # it is set for all sessions
    assert "3. Always answer" not in prompt
    assert ("4. Answer in English" in prompt, "Answer in English" in binding) == (True, True)


async def test_an_instruction_that_is_corrected_in_conversation_binds_no_more(
    home: Path, tmp_path: Path
) -> None:
    old, new = "Always deploy to staging on port 8080.", "deploy to staging on port 9090, not 8080."
    model = script(tmp_path, {"text": "Good."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Hello, here is some work.")
        await stage.run(f"/rules add {old}")
        await stage.run("/rules add Never force push")
        await stage.say(f"Correction: {new}")
        await stage.say("Correction: you may force push.")
        await stage.run("/checkpoint save")
        binding = (await stage.run("/checkpoint show"))[1].partition("Current topic")[0]
        await stage.say("go on")
        prompt = str(stage.requests()[-1][0]["content"])
        listed = (await stage.run("/rules"))[1]
        assert "What you said there since corrects it." in (await stage.run("/rules why 1"))[1]
        assert "Rule 1 does not bind as it was set: what you said since corrects it." in listed
        await stage.run("/fork child")
        await stage.run("/rewind turn 1")
        again = (await stage.run("/rules"))[1]
    for told in (binding, prompt, listed):
        assert old not in told
        assert "Never force push" in told, "what is checked stands until it is retired"
    assert new in binding
    assert old in again, "what corrected it was taken back"
    async with on_stage(home, key=SessionKey.parse("child"), model=model) as child:
        assert old not in (await child.run("/rules"))[1]


@pytest.mark.parametrize(
    ("rule", "said", "told"),
    [
        ("Never force push", "You may force push from now on.", True),
        ("Never force push", "You may not force push.", False),
        ("Never force push", "May we force push?", False),
        ("Never delete files", "Actually you can delete files now.", True),
        ("Never delete files", "You can read files.", False),
        ("Always answer in German. --everywhere", "Answer in French, not German.", True),
    ],
)
async def test_who_says_otherwise_than_a_rule_that_still_binds_is_told_so_once(
    home: Path, tmp_path: Path, rule: str, said: str, told: bool
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Good."}, loop=True)) as stage:
        await stage.run(f"/rules add {rule}")
        await stage.say(said)
        await stage.say("Go on.")
        heard = [one for one in stage.heard if "Rule 1 still binds" in getattr(one, "message", "")]
    assert len(heard) == told


async def test_what_a_trusted_project_says_can_be_set_as_its_rules(
    home: Path, tmp_path: Path
) -> None:
    told = "# House\n\n- Never force push.\n- Be kind.\n- Use pnpm instead of npm.\n"
    (tmp_path / "AGENTS.md").write_text(told)
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}), cwd=tmp_path) as stage:
        _, said = await stage.run("/rules adopt")
        assert "say nothing to check" in said, "nobody trusts it yet"
        await stage.run("/trust")
        _, said = await stage.run("/trust yes")
        assert "2 sentences of it can be checked" in said
        await stage.run("/rules adopt 2")
        _, said = await stage.run("/rules adopt")
        assert "Never force push." in said
        assert "pnpm" not in said
        ended, _ = await stage.run("/rules adopt 7")
        assert not ended.ok
    [kept] = stage.entries(RuleSet)
    assert (kept.words, kept.scope) == ("Use pnpm instead of npm.", "project")


async def test_rules_are_played_over_a_recorded_session_of_another_program(
    home: Path, tmp_path: Path
) -> None:
    take_over(home, FIXTURES / "claude-code.jsonl")
    async with on_stage(home, model=script(tmp_path, {"text": "ok"})) as stage:
        await stage.run("/rules add Never edit config.toml")
        ended, said = await stage.run("/rules replay")
        assert ended.ok, said
        assert "deny, rule 1" in said
        await stage.run("/rules retire 1")
        _, said = await stage.run("/rules replay")
        assert said == "Nothing in it would have been stopped."


@pytest.mark.parametrize("again", [False, True])
async def test_what_a_person_retired_is_neither_proposed_nor_told_as_decided(
    home: Path, tmp_path: Path, again: bool
) -> None:
    rule = "Never sail on Sundays."
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        await stage.say(f"{rule} We start now.")
        await stage.run("/keep yes")
        assert "stands no longer" in (await stage.run("/rules retire 1"))[1]
        if again:
            await stage.say(f"We do it again. {rule}")
        await stage.run("/task done")
        proposed = [one.after for one in stage.entries(MemoryProposed)]
        with History(stage.places) as history:
            decided = outcomes(StorySource(history))["Decided"]
        assert not [one for one in proposed if rule in one]
        assert (rule in decided) is again


@pytest.mark.parametrize("way", ["mindstone", "python -m mindstone_tui", "sh -c 'mindstone"])
async def test_an_agent_that_retires_a_rule_has_the_person_asked(
    home: Path, tmp_path: Path, way: str
) -> None:
    line = f"{way} rules retire 1" + ("'" if "'" in way else "")
    model = script(tmp_path, calls(("shell", {"command": line})), {"text": "No."})
    async with on_stage(home, model=model, approve="full-auto") as stage:
        await stage.run("/rules add Be kind")
        await stage.say("lift it")
        _, said = await stage.run("/rules")
        assert "Be kind" in said, "a rule of which nothing is checked is theirs as well"
    assert [one.number for one in stage.entries(RuleFired)] == [1]


def test_an_order_of_work_lets_through_what_was_prepared() -> None:
    check = compile_rule("Run the tests before every commit")
    assert check is not None
    commit = SeenCommand(("git", "commit", "-m", "x"))
    tested = [SeenCommand(("make", "test"))]
    assert verdict_of(check, Deed(tool="shell", commands=(commit,))) == "deny"
    assert verdict_of(check, Deed(tool="shell", commands=(commit,), done=lambda: tested)) == "allow"


async def test_a_rule_binds_on_the_machine_that_its_session_was_brought_to(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = script(tmp_path, calls(("shell", {"command": "git push -f"})), {"text": "Not pushed."})
    async with on_stage(home, model=model) as stage:
        await stage.run("/rules add Never edit files under vendor/")
        await stage.run(f"/rules add {NEVER} --everywhere")
        await stage.run("/rules retire 1")
    here, there = (
        Places.resolve({"MINDSTONE_HOME": str(each)}) for each in (home, tmp_path / "laptop")
    )
    (tmp_path / "laptop").mkdir()
    RuleBook(there).add(rule_of_there)
    list(sync(FileStore(there), FileStore(here)))
    brought = there.session(SessionKey.parse("agent:default:main"))
    (came,) = RuleBook(there).take_over(brought)
    assert (came.number, came.words, came.session) == (3, NEVER, str(brought.key))
    assert [one.words for one in RuleBook(there).all() if not one.retired] == ["Be brief.", NEVER]
    assert RuleBook(there).take_over(brought) == [], "once"
    async with on_stage(tmp_path / "laptop", key=OTHER, model=model, approve="auto-edit") as stage:
        await stage.say("push it")
    assert [one.by for one in stage.entries(ToolRefused)] == ["your rule"]
    async with on_stage(home, model=model) as stage:
        await stage.run("/rules retire 2")
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "laptop"))
    assert run_verb(["sync", str(home)]) == 0
    assert f"Rule 3 was retired in it: {NEVER}" in capsys.readouterr().err
    assert [one.words for one in RuleBook(there).all() if not one.retired] == ["Be brief."]


async def test_a_fork_has_the_rules_that_stood_when_it_was_made_and_retires_no_others(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Well."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
        await stage.run("/rules add Never run terraform apply")
        await stage.run("/rules add Never run packer build")
        await stage.run("/rules retire 2")
        await stage.run("/fork made")
        await stage.run("/rules retire 1")
    key = SessionKey.parse("made")
    async with on_stage(home, model=model, key=key) as made:
        _, listed = await made.run("/rules")
        assert "terraform apply" in listed
        assert "packer" not in listed
        _, task = await made.run("/task start Ship it")
        assert "Never run terraform apply [your rule: /rules]" in task
    async with on_stage(home, model=model) as stage:
        ended, said = await stage.run("/rules retire 3")
        assert not ended.ok
        assert "binds agent:default:made" in said
        assert "terraform" not in (await stage.run("/rules"))[1]


async def test_no_rule_comes_with_what_a_fork_copied(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
        await stage.run(f"/rules add {NEVER} --everywhere")
        lines = stage.lines()
    (said,) = [line for line in lines if isinstance(line.entry, RuleSet)]
    copied = msgspec.structs.replace(said, parent=said.id)
    imported = msgspec.structs.replace(said, channel="import")
    assert [with_those_in([each], []) for each in (copied, imported)] == [[], []]
    assert len(with_those_in([said], [])) == 1


def rule_of_there(number: int) -> StandingRule:
    """A rule that another session set."""
    return StandingRule(
        number=number, words="Be brief.", scope="everywhere", session="agent:a:b", line=3, since=""
    )


async def test_a_rule_that_asks_is_told_in_whole_sentences_and_a_bare_no_has_no_reason(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, calls(("shell", {"command": "rm -f old"})), {"text": "Left."})
    async with on_stage(home, model=model, asks=True) as stage:
        await stage.run("/rules add Ask me before deleting files")
        stage.session.send("clean up")
        asked = await stage.until(ToolAsked)
        assert isinstance(asked, ToolAsked)
        stage.session.answer(asked.call, Answer(allowed=False, how="n"))
        await stage.idle()
    assert asked.why.endswith("Allows everything else.")
    (refused,), (returned,) = stage.entries(ToolRefused), stage.entries(ToolReturned)
    assert (refused.why, returned.text) == ("", "Declined by the user")


async def test_a_rule_that_was_offered_was_in_view_as_long_as_its_offer(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."})) as stage:
        await stage.say("Never push to main.")
        await stage.run("/keep yes")
    (answered,), (rule,) = stage.entries(OfferAnswered), stage.entries(RuleSet)
    assert rule.seen == answered.seen > 0


def test_rules_that_an_earlier_version_compiled_still_hold(tmp_path: Path) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(tmp_path)})
    file = places.data / "rules.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        """[{"number": 1, "words": "Never create branches", "scope": "everywhere", "session": "s",
        "line": 1, "since": "2026-01-01T00:00:00Z",
        "check": {"commands": [{"program": "git", "action": ["branch"], "operands": true}]}}]"""
    )
    (rule,) = RuleBook(places).all()
    assert rule.check is not None
    for words, said in ((("git", "branch", "x"), "deny"), (("git", "branch"), "allow")):
        assert verdict_of(rule.check, Deed(tool="shell", commands=(SeenCommand(words),))) == said


def _numbered(rule: StandingRule, number: int) -> StandingRule:
    return msgspec.structs.replace(rule, number=number)


def test_a_rule_is_tried_with_the_arguments_of_an_edit_and_told_in_full(tmp_path: Path) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(tmp_path)})
    rules = [
        StandingRule(
            number=number,
            words=words,
            scope="everywhere",
            session="s",
            line=1,
            since="2026-01-01",
            check=compile_rule(words),
        )
        for number, words in enumerate(("No console.log in our code", "Never deploy"), 1)
    ]
    for rule in rules:
        RuleBook(places).add(partial(_numbered, rule))

    def says(argument: str) -> str:
        return tried(places, "edit", argument, tmp_path, "")[0].partition(":")[0]

    assert says('{"path": "a.ts", "new_string": "console.log(1)"}') == "deny"
    assert says('{"path": "a.ts", "new_string": "log(1)"}') == "allow"
    with pytest.raises(errors.UsageError, match="no JSON object"):
        says('{"path"')
    assert "more of the kind" not in why(places, 2).text
    assert "`deploy.sh`; `deploy`" in why(places, 2).text


async def test_the_panel_shows_a_rule_as_soon_as_it_is_set_and_no_longer_than_it_stands(
    home: Path,
) -> None:
    async with on_stage(home) as stage:
        await stage.say("hello")
        for line, shown in (("/rules add be brief", True), ("/rules retire 1", False)):
            await stage.run(line)
            report = [one for one in stage.heard if isinstance(one, ContextReported)][-1].report
            assert ("Rule 1: be brief" in report.beside) is shown


async def test_a_rule_that_stands_is_not_set_twice(home: Path) -> None:
    async with on_stage(home) as stage:
        await stage.run("/rules add never force push")
        assert "Rule 1 stands" in (await stage.run("/rules add never force push"))[1]
        assert len(stage.entries(RuleSet)) == 1
