"""A sentence becomes a check when all of it is understood, and else nothing."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.rules.checks import Deed, Verdict, verdict_of
from mindstone_tui.core.rules.deeds import of_command
from mindstone_tui.core.rules.grammar import compile_rule
from tests.corpora import lines


def says(rule: str, tool: str, argument: str, folder: Path) -> Verdict:
    check = compile_rule(rule)
    assert check is not None, rule
    if tool == "shell":
        return verdict_of(check, of_command(argument, folder))
    return verdict_of(check, Deed(tool=tool, changes=(argument,)))


FORCE = "Never run git push --force"


@pytest.mark.parametrize(
    ("rule", "denied", "allowed"),
    [
        (
            FORCE,
            ["git push -f", "git push --force-with-lease", "git push origin +main"],
            "git push",
        ),
        (FORCE, ["git push --for", "git push -uf"], "git push origin :old"),
        *(
            ("Only touch files under src/", [refused], allowed)
            for refused, allowed in (
                ("sed -i s/a/b/ a.py", "sed -i s/a/b/ src/a.py"),
                ("sed -i --expression=s/a/b/ a.py src/a.py", "sed -ni -e s/a/b/p src/a.py"),
                ("chmod --reference=src/a.py a.py src/b.py", "chmod +x src/a.py"),
                ("git rm a.py", "git rm -q src/a.py"),
                ("git pull", "git checkout -- src/a.py"),
            )
        ),
        ("Never force push to main.", ["git push -f origin main"], "git push -f origin dev"),
        ("don't push to release", ["git push origin HEAD:release"], "git push origin released"),
        ("Never amend commits", ["git commit --amend"], "git commit -m amend"),
        (
            "ansible-playbook only with --check",
            ["ansible-playbook a.yml"],
            "ansible-playbook -C --check a.yml",
        ),
        ("Never run cargo build without --locked", ["cargo build"], "cargo build --locked"),
        ("Never use --no-verify", ["git commit -nm x", "git push --no-verify"], "git commit -m n"),
        ("Do not add new dependencies", ["npm i left-pad", "uv add x"], "npm install"),
        ("Use pnpm instead of npm", ["npm test", "npm i x"], "pnpm test"),
        ("Use uv, not pip or poetry", ["pip3 install x", "poetry add y"], "uv add x"),
        ("Never use sudo because it breaks my machine", ["sudo ls"], "ls sudo"),
        ("Never run `terraform apply`", ["terraform apply -auto-approve"], "terraform plan"),
        ("Never push, rebase or stash", ["git push", "git rebase x", "git stash"], "git pull"),
        ("Please don't ever touch the migrations folder", ["rm migrations/1.sql"], "ls migrations"),
        ("Don't push to main, open a PR", ["git push origin main"], "gh pr create"),
        ("Don't use curl or wget", ["curl -O x", "wget x"], "cat curl"),
        ("Never use git add .", ["git add ."], "git add a.py"),
        ("Never push to main or release", ["git push origin release"], "git push origin dev"),
        ("No pushes to main", ["git push origin main"], "git push origin dev"),
        ("Never run commands like `rm -rf`", ["rm -fr x", "rm -r -f x"], "rm x"),
        ("Never delete branches", ["git push origin :old", "git branch -d x"], "git push origin x"),
        ("Never git push", ["git push -u origin x"], "git pull"),
        ("Don't use npm or yarn, use pnpm", ["npm ci", "yarn add x"], "pnpm i"),
        ("No git stash, I keep losing things in there", ["git stash"], "git status"),
        (
            "never docker system prune, I lost a volume that way",
            ["docker system prune -af"],
            "docker ps",
        ),
        ("no rebasing. merge.", ["git rebase x", "git pull --rebase"], "git merge x"),
        ("git reset --hard is forbidden", ["git reset --hard HEAD~1"], "git reset HEAD a.py"),
        ("use rg, not grep -r", ["grep -rn x ."], "grep x a.py"),
        ("use black for formatting, not yapf or autopep8", ["autopep8 -i a.py"], "black a.py"),
        ("tests get run with make test, not pytest directly", ["pytest -x"], "make test"),
        (
            "Never run `gsutil rm` or `mytool wipe`: our backups are there",
            ["mytool wipe x"],
            "gsutil ls",
        ),
        ("please always use uv instead of pip", ["pip install x", "pip3 list"], "uv pip install x"),
        (
            "never run docker compose down -v",
            [
                "docker compose -f a.yml -p b down --volumes",
                "docker-compose down -v",
                "docker compose -p x down -v",
            ],
            "docker compose down",
        ),
        ("never drop a table", ["psql -c 'drop table x'"], "psql -c 'select 1'"),
        ("Tests must pass before you commit", ["git commit -m x"], "pytest -q && git commit -m x"),
        ("Don't touch the README", ["rm README.md"], "cat README.md"),
        ("stay out of infra/", ["rm infra/a.tf"], "rm src/a.tf"),
        ("no direct pushes to production", ["git push origin production"], "git push origin x"),
        (
            "don't restart nginx",
            ["sudo systemctl restart nginx", "service nginx restart"],
            "systemctl status nginx",
        ),
        ("never edit yarn.lock by hand", ["sed -i s/a/b/ yarn.lock"], "yarn add x"),
        ("Never push to origin", ["git push", "git push origin x"], "git pull origin"),
        ("no chmod 777", ["chmod -R 0777 a"], "chmod +x a"),
        ("No DROP or TRUNCATE, not even on dev", ["mysql -e 'truncate x'"], "mysql -e 'select 1'"),
        ("No drop table, no truncate, ever", ['psql -c "DROP  TABLE x"'], "psql -c 'select 1'"),
        ("no curl | bash installs", ["curl -sSL x.sh |bash", "curl x | sudo sh"], "curl -sSLO x"),
        (
            "Never reboot or shut down the till server",
            ["ssh till 'sudo poweroff'"],
            "ssh till uptime",
        ),
        ("don't change the git config", ["git config user.name x"], "git config --get user.name"),
        ("run docker without --privileged", ["docker run --privileged x"], "docker run x"),
        ("Nothing outside of src/ should be changed", ["cp src/a /etc/b"], "cp /tmp/a src/b"),
        ("the raw data in data/raw is sacred. never move it", ["rm data/raw/a"], "ls data/raw"),
        ("leave prod.yml alone, I edit that by hand", ["sed -i s/a/b/ prod.yml"], "cat prod.yml"),
        (
            "No network calls to api.pay.dev, use the mock",
            ["curl https://api.pay.dev/x"],
            "curl x.dev",
        ),
    ],
)
def test_what_the_words_forbid_is_refused_and_the_rest_is_not(
    tmp_path: Path, rule: str, denied: list[str], allowed: str
) -> None:
    for line in denied:
        assert says(rule, "shell", line, tmp_path) == "deny", line
    assert says(rule, "shell", allowed, tmp_path) == "allow"
    assert says(rule, "shell", "make && ls -la | sort", tmp_path) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "cd app && git push -f",
        "git -C app push --force",
        "bash -c 'git push -f origin x'",
        "env A=1 git push -uf origin x",
        "echo x | xargs git push --force",
        "/usr/bin/git push --forc",
        "(git push -f)",
        "if true; then git push -f; fi",
    ],
)
def test_a_command_is_found_inside_whatever_runs_it(tmp_path: Path, line: str) -> None:
    assert says(FORCE, "shell", line, tmp_path) == "deny"


def test_what_cannot_be_seen_is_asked_about_only_where_it_could_be_it(tmp_path: Path) -> None:
    assert says(FORCE, "shell", "git push $FLAGS", tmp_path) == "ask"
    assert says(FORCE, "shell", "git pull $FLAGS", tmp_path) == "allow"
    assert says(FORCE, "shell", 'ls "$HOME"', tmp_path) == "allow"


@pytest.mark.parametrize(
    ("rule", "refused", "allowed"),
    [
        ("Don't touch the migrations folder.", "db/migrations/0001.sql", "db/models.py"),
        ("Never edit files under vendor/", "vendor/x/y.c", "src/vendored.c"),
        ("Never edit .env files", "app/.env", "app/env.py"),
        ("Do not modify package-lock.json", "package-lock.json", "package.json"),
        ("Only touch files under src/", "docs/a.md", "src/a.py"),
        ("Never change *.lock", "poetry.lock", "lock.py"),
        ("Only touch src/ and the tests", "docs/a.md", "tests/a.py"),
        ("Never edit anything outside src/", "docs/a.md", "src/a.py"),
        ("You must not touch the `legacy/` folder.", "legacy/a.c", "src/legacy.c"),
    ],
)
def test_a_file_is_guarded_by_its_name_its_folder_or_its_stars(
    tmp_path: Path, rule: str, refused: str, allowed: str
) -> None:
    assert says(rule, "edit", refused, tmp_path) == "deny"
    assert says(rule, "edit", allowed, tmp_path) == "allow"
    assert says(rule, "shell", f"echo x > {refused}", tmp_path) == "deny"


@pytest.mark.parametrize(
    ("rule", "added", "harmless"),
    [
        ("Don't leave console.log in the code", "console.log('x')", "console.info('x')"),
        ("No inline comments", "x = 1; // one", "half = all // 2"),
        ("Use strict TypeScript. Never use `any`.", "let x: any = 1", "// take any of them"),
        ("Avoid 'any', prefer 'unknown'", "x as any", "company"),
        ("No TODO comments", "# TODO: later", "# mastodon"),
        ("Never use the @apply directive", "  @apply flex;", "apply(flex)"),
        ("Never use `eval`", "eval(x)", "evaluate(x)"),
        ("Avoid enums; use maps instead", "export enum Tide {", "// an enumeration"),
        ("Do not use inline styles or default exports", "export default x", "styled(x)"),
        ("No emojis", "done 🎉", "done :)"),
    ],
)
def test_what_an_edit_may_not_add_is_found_as_code_and_not_as_english(
    rule: str, added: str, harmless: str
) -> None:
    check = compile_rule(rule)
    assert check is not None
    assert verdict_of(check, Deed(tool="edit", changes=("a.ts",), added=added)) == "deny"
    assert verdict_of(check, Deed(tool="edit", changes=("a.ts",), added=harmless)) == "allow"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Ask me before you delete any files", "rm a.txt"),
        ("Never install packages without asking me first.", "pip install x"),
        ("Check with me before pushing", "git push"),
        ("Don't add dependencies; ask first", "npm install x"),
        ("No new packages without approval", "uv add x"),
        ("Do not run `docker compose down -v` unless asked.", "docker compose down -v"),
    ],
)
def test_what_wants_a_question_is_asked_about(tmp_path: Path, rule: str, line: str) -> None:
    assert says(rule, "shell", line, tmp_path) == "ask"
    assert says(rule, "shell", "ls", tmp_path) == "allow"


@pytest.mark.parametrize(
    "rule",
    [
        "Be concise.",
        "Never push to main on Fridays",
        "Never push unless the moon is full",
        "Always write tests",
        "Don't be afraid to ask",
        "Never use the old importer for dates",
        "Use the tests to find the fault",
        "Never forget the milk",
        "Don't add emojis to commit messages",
        "No emojis in commit messages",
        "Never commit secrets",
        "Use descriptive names",
        "Never run the app in the background",
        "Do not change the public API",
        "Avoid any unnecessary work",
        "Avoid type assertions unless necessary",
        "Never run `git push --follow-tags --atomic`",
        "StackedAreaChart needs a flat array. Do not use `lineBy`.",
        "Run `make lint` and `make test` before committing",
        "Do not commit `.env`",
        "Don't merge, rebase",
        "No npm, pnpm only",
        "Leave the comments in config.py",
        "Avoid everything",
        "The build is mine",
        "Never add packages to package.json by hand",
        "src/api is generated",
        "Never push to main. You must ask before editing docs.",
        "Never push to main, push to a branch",
        "Never open the assets folder, they are large, never git add them",
        "Never deploy, only staging",
        "Never push to main, the exception is a hotfix",
        "Never commit on Fridays",
        "Never run python directly",
        "Don't use kubectl against prod",
        "No git commits",
        "Never amend pushed commits",
        "Never rebase shared branches",
    ],
)
def test_what_is_not_understood_whole_is_no_check(rule: str) -> None:
    assert compile_rule(rule) is None


def test_of_rules_that_people_wrote_none_is_checked_that_a_reader_says_cannot_be() -> None:
    said = [json.loads(line) for line in lines("rules.jsonl")]
    checked = [one for one in said if compile_rule(one["words"]) is not None]
    assert [one["words"] for one in checked if not one["mechanical"]] == []
    known = [one for one in said if one["mechanical"] and one["half"] == "open"]
    assert sum(one in checked for one in known) >= 0.6 * len(known)


@pytest.mark.thorough
def test_of_600_sentences_in_rule_files_of_others_none_is_checked_that_cannot_be() -> None:
    said = [json.loads(line) for line in lines("rules_of_agents.jsonl")]
    checked = [one for one in said if compile_rule(one["words"]) is not None]
    assert [one["words"] for one in checked if not one["mechanical"]] == []
    assert len(checked) >= 5


def test_what_is_to_be_used_instead_is_not_forbidden(tmp_path: Path) -> None:
    assert says("No npm, use pnpm", "shell", "npm install", tmp_path) == "deny"
    assert says("No npm, use pnpm", "shell", "pnpm install", tmp_path) == "allow"


@pytest.mark.thorough
def test_of_320_rules_in_the_words_of_strangers_no_check_speaks_against_what_they_allow(
    tmp_path: Path,
) -> None:
    """Written in four sets, each tried before anything was done for it."""
    said = [json.loads(line) for line in lines("rules_typed.jsonl")]
    checks = [(one, check) for one in said if (check := compile_rule(one["rule"])) is not None]
    wrong = [
        (one["rule"], act)
        for one, check in checks
        for act in one["allowed"]
        if not act.startswith("edit:") and verdict_of(check, of_command(act, tmp_path)) != "allow"
    ]
    assert wrong == []
    # "Run the tests before you commit" was called one that cannot be checked.
    assert sum(not one["checkable"] for one, _ in checks) <= 1
    assert len(checks) >= 0.34 * sum(one["checkable"] for one in said)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("pytest -q && git commit -m x", "allow"),
        ("cd app && pytest && git add -u && git commit -m x", "allow"),
        ("pytest -q; git commit -m x", "deny"),
        ("pytest -q | tail && git commit -m x", "deny"),
        ("pytest --version && git commit -m x", "deny"),
        ("git commit -m x && pytest", "deny"),
        ("git $DO", "ask"),
        ("cd app && git $DO", "ask"),
        ("pytest && sed -i s/a/b/ a.py && git commit -m x", "deny"),
    ],
)
def test_what_has_to_be_run_first_may_be_run_in_the_same_line(
    tmp_path: Path, before: str, said: Verdict
) -> None:
    assert says("Run the tests before you commit", "shell", before, tmp_path) == said


@pytest.mark.parametrize(
    ("line", "on_main", "elsewhere"),
    [
        ("git push", "deny", "allow"),
        ("git push origin HEAD", "deny", "allow"),
        ("git push -u origin @", "deny", "allow"),
        ("git push origin HEAD:main", "deny", "deny"),
        ("git push origin 'refs/heads/*'", "deny", "deny"),
        ("git push --all origin", "deny", "deny"),
        ("git push origin feature/main", "allow", "allow"),
        ("git push origin main:tide", "allow", "allow"),
    ],
)
def test_a_push_goes_to_the_branch_that_it_names_or_the_one_that_is_checked_out(
    tmp_path: Path, line: str, on_main: Verdict, elsewhere: Verdict
) -> None:
    check = compile_rule("Never push to main")
    assert check is not None
    deed = of_command(line, tmp_path)
    for branch, said in (("main", on_main), ("tide", elsewhere)):
        on_it = msgspec.structs.replace(deed, branch=lambda here=branch: here)
        assert verdict_of(check, on_it) == said, branch


def test_a_commit_is_made_where_the_rule_s_branch_is_not_checked_out(tmp_path: Path) -> None:
    check = compile_rule("Never commit on main")
    assert check is not None
    deed = of_command("git commit -m x", tmp_path)
    for branch, said in (("main", "deny"), ("tide", "allow"), ("", "allow")):
        on_it = msgspec.structs.replace(deed, branch=lambda here=branch: here)
        assert verdict_of(check, on_it) == said, branch


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("Never commit on main", "refuses: `git commit` while on main"),
        ("cargo build only with --locked", "refuses: `cargo build` without `--locked`"),
        ("Use pnpm instead of npm", "refuses: `npm` (use pnpm)"),
        ("Never push to main", "refuses: `git push` to main"),
        (
            "Never delete branches",
            "refuses: `git branch` with `-d`, `-D` or `--delete`; "
            "`git push` with `--delete`, `-d` or a target like `:old`",
        ),
        (
            "Run the tests before you commit",
            "refuses: `git commit`, unless `pytest`, `python -m pytest`, `tox`, `nox` or the like "
            "ended well since the last change",
        ),
        (
            "Ask me before you delete any files",
            "asks before: `rm …`; `git rm …`; `unlink …`; `rmdir …`; 1 more of the kind",
        ),
        (
            "never drop a table",
            "refuses: `dropdb …`; `rails db:drop`; `rake db:drop`; `psql` where the line says "
            "`drop table`, `drop database` or `drop schema`; 4 more of the kind",
        ),
        ("Only touch src/ and the tests", "refuses: a change of anything outside src or tests"),
        ("Don't touch the README", "refuses: a change of README*"),
        ("Never delete files in docs", "refuses: the deletion of docs or anything in it"),
        ("No inline comments", "refuses: a change that adds inline comments"),
        ("Never use `eval`", "refuses: a change that adds eval"),
    ],
)
def test_a_check_is_told_in_plain_words(rule: str, told: str) -> None:
    assert str(compile_rule(rule)) == f"{told}. Allows everything else."


@given(st.text(max_size=300))
def test_any_sentence_is_read_without_an_error(text: str) -> None:
    compile_rule(f"Never {text}")
    check = compile_rule(text)
    assert check is None or "Allows everything else" in str(check)


@pytest.mark.parametrize(
    "rule",
    [
        "no console.log in src/ please, we have a logger",
        "never use `console.log` inside src/",
    ],
)
def test_what_must_not_be_added_somewhere_may_be_elsewhere(rule: str) -> None:
    check = compile_rule(rule)
    assert check is not None
    assert "adds console.log to src." in str(check)
    for path, said in (("src/a.js", "deny"), ("tools/a.js", "allow"), ("src2/a.js", "allow")):
        deed = Deed(tool="edit", changes=(path,), added="console.log(1)")
        assert verdict_of(check, deed) == said


@pytest.mark.parametrize(
    "rule", ["never push in docs/", "no npm in web/", "cargo only with --locked or --offline"]
)
def test_a_place_or_an_option_that_could_mean_more_makes_no_check(rule: str) -> None:
    assert compile_rule(rule) is None
