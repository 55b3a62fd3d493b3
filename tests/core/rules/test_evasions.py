"""Ways around a rule: which of them are caught, which are asked about, and which are not seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.rules.checks import verdict_of
from mindstone_tui.core.rules.deeds import of_call, of_command
from mindstone_tui.core.rules.grammar import compile_rule

PUSH, DOCS, VENDOR = (
    "Never force push",
    "Never delete files in docs",
    "Never edit files under vendor/",
)
REFUSED = {
    PUSH: [
        # options and targets
        *(
            "git push --force",
            *("git push --force\n)", "git push --force\nif", "true; " * 101 + "git push --force"),
            *(
                'a=(git push -f); "${a[@]}"',
                "git push --force <<E",
                f"git push --force # {'x' * 21_000}",
            ),
            ";".join(f"cd a{step}" for step in range(20)) + "; git push --force",
            "git push -uf origin main",
            "git push --forc",
            "git push origin +main",
        ),
        *("git push --force-with-lease=main", "git push --mirror", "git push\\\n --force"),
        # quoting and paths
        *("'git' \"push\" --fo'rce'", 'g"it" push -f', "\\git push -f", "/usr/bin/git push -f"),
        # the program's own options before the action
        *("git -C sub push -f", "git -c user.name=x push -f", "git --git-dir=.git push --force"),
        # wrappers
        *("env A=1 git push -f", "sudo -u bob git push -f", "echo origin | xargs git push -f"),
        *("command git push -f", "exec git push -f", "nohup git push -f &", "time git push -f"),
        *("timeout 5 git push -f", "nice -n 5 git push -f", "watch git push -f"),
        # shells in shells
        *("bash -c 'git push -f'", "sh -c \"sh -c 'git push -f'\"", "eval 'git push -f'"),
        # places in a line
        *("if true; then git push -f; fi", "f() { git push -f; }; f", "(git push -f)"),
        *("for i in 1; do git push -f; done", "true && git push -f", "git push -f | cat"),
        # aliases that the same command sets
        *("alias p='git push -f'; p", "alias p='git push'; p -f", "alias g=git; g push -f"),
        *("git config alias.x 'push -f' && git x", "git config alias.x push; git x --force"),
        *("git config --global alias.x '!git push -f'; git x", "git -c alias.x='push -f' x"),
        *("git -c alias.x=push x --force", "git -calias.x='push -f' x"),
        "git -c 'alias.x=!sh -c \"git push -f\"' x",
        # programs that run what follows, known or not, and what they take for a line
        *("bash -o pipefail -c 'git push -f'", 'bash -c "git push \\"-f\\""', "env - git push -f"),
        *("env -S 'git push -f'", "sudo -nu bob git push -f", "exec -a x git push -f"),
        *(
            "su bob -c 'git push -f'",
            "script -qc 'git push -f' /dev/null",
            "watch -n1 'git push -f'",
        ),
        *("coproc git push -f", "trap 'git push -f' EXIT", "taskset 1 git push -f"),
        *("uv run git push -f", "bundle exec git push -f", "mise exec -- git push -f"),
        *("direnv exec . git push -f", "docker run x git push -f", "torsocks git push -f"),
        *("ssh host git push -f", "find . -exec git push -f \\;", "bash -c $'git push -f'"),
        "git push>log -f",
    ],
    DOCS: [
        *("rm docs/a.md", "rm -rf docs", "rm -r ./docs/*", "git rm docs/a.md", "unlink docs/a.md"),
        *("find docs -delete", "find docs -name '*.md' -exec rm {} +", "sudo rm docs/a.md"),
        *("rmdir docs/x", "shred -u docs/a.md", "alias del=rm; del docs/a.md"),
        "apply_patch <<'E'\n*** Begin Patch\n*** Delete File: docs/a.md\n*** End Patch\nE",
    ],
    VENDOR: [
        *("echo x > vendor/a.c", "sed -i s/a/b/ vendor/a.c", "tee vendor/a.c", "cp a vendor/a.c"),
        *("mv a vendor/", "curl -o vendor/a.c http://x", "git checkout -- vendor/a.c"),
    ],
}
ASKED = {
    PUSH: [
        *("F=--force; git push $F", "X=push; git $X -f", "git push ${FORCE:+--force}"),
        "git push -$(echo f)",
    ],
    DOCS: [
        *(
            "rm -rf .",
            "rm -rf ./*",
            "rm d*/a.md",
            "rm do?s/a.md",
            "for f in docs/*; do rm $f; done",
        ),
        *("rm -rf `pwd`/docs", "rm -rf ../$(basename $PWD)/docs", "PWD=/x; rm -rf $PWD/docs"),
    ],
}
NOT_SEEN = {
    PUSH: [
        # the program itself is hidden
        *("X='git push --force'; $X", "$(echo git) push -f"),
        # what a shell reads from its input
        *("echo 'git push -f' | sh", "bash <<'E'\ngit push -f\nE", "bash <<< 'git push -f'"),
        # another language
        "python -c \"import os; os.system('git push -f')\"",
        "node -e \"require('child_process').execSync('git push -f')\"",
        # written first and run later, or set up in another call
        *("echo 'git push -f' > p.sh; sh p.sh", "./p.sh", "make push", "git x", "source p.sh"),
        # a link, another machine, another program for the same effect
        *("ln -s /usr/bin/git /tmp/g; /tmp/g push -f", "git send-pack --force origin main"),
        *("git -c remote.origin.mirror=true push", "hub push -f"),
        "gh api -X PATCH repos/a/b/git/refs/heads/main -F force=true",
    ],
    DOCS: [
        *(
            "cd docs && rm a.md",
            "mv docs/a.md /tmp",
            "git clean -fd docs",
            "rsync --delete a/ docs/",
        ),
        "python -c \"import os; os.remove('docs/a.md')\"",
        *("find docs | xargs rm", "rm {docs,x}/a.md"),
    ],
    VENDOR: [
        *("sort -o vendor/a.c x", "wget -O vendor/a.c http://x"),
        *("cd vendor && echo x > a.c", "V=vendor; echo x > $V/a.c", "dd of=vendor/a.c"),
        *("perl -pi -e s/a/b/ vendor/a.c", "python -c \"open('vendor/a.c','w')\""),
    ],
}
"""Each of these would be caught by nobody: docs/rules.md says so."""
INNOCENT = {
    PUSH: [
        *("git push", "git push origin main", "git push --delete origin main", "git fetch --force"),
        *("git commit -m 'push --force'", "echo git push --force", "git log --grep='push -f'"),
        *("grep -rn 'git push -f' .", "alias p='git push'; p", "git config alias.p push; git p"),
        *("alias p='git push -f'; ls", "alias ls='ls -l'; ls", "alias sudo='sudo sudo'; sudo ls"),
        *("git config alias.x '!git x'; git x", "alias p=; p", "alias p", "git config alias.x"),
        *(
            "docker run x git push",
            "uv run pytest",
            "bash -c 'git push'",
            "gh pr create -t 'No -f'",
        ),
    ],
    DOCS: [
        *("echo x > docs/a.md", "sed -i s/a/b/ docs/a.md", "rm src/a.py", "git checkout docs/a.md"),
        *(
            "git rm --cached docs/a.md",
            "docker rm docs",
            "git branch -D docs",
            "npm uninstall docs",
            "git mv docs/a docs/b",
        ),
    ],
    VENDOR: ["cat vendor/a.c", "ls vendor > list.txt", "cat vendor/a.c > out.c", "git log vendor"],
}


REFUSED[PUSH] += [
    *("git push --fo\\\nrce", "git push --force\\\n", "git pu\\\nsh -f", "git-push -f"),
    *("git --namespace x push -f", "git --attr-source x push -f", "/usr/lib/git-core/git-push -f"),
    *("env --split-string='git push -f'", "ssh host 'cd x && git push -f'"),
    *("git rebase --exec='git push -f' main", "git config alias.X 'push -f' && git x"),
    "git -c alias.x=y -c alias.y='push -f' x",
    "echo hi # \\\ngit push -f",
    "cat <<'E'\nx\\\nE\ngit push -f",
]
REFUSED[DOCS] += ["rm -rf $PWD/docs", 'rm -rf "$PWD/docs"', "rm -rf ${PWD}/docs", "srm docs/a.md"]
REFUSED[VENDOR] += [
    *("echo x <> vendor/a.c", "f() { echo x; } > vendor/a.c; f", "[[ x ]] > vendor/a.c"),
    *("A=1 > vendor/a.c", "echo x > ${PWD}/vendor/a.c", "echo x > $PWD/vendor/a.c"),
]
INNOCENT[DOCS] += ["rm -rf $PWD/src", "echo '$PWD/docs' > rm", "cat $X/docs"]


@pytest.mark.parametrize(
    ("verdict", "rules"),
    [("deny", REFUSED), ("ask", ASKED), ("allow", NOT_SEEN), ("allow", INNOCENT)],
    ids=["refused", "asked", "not-seen", "innocent"],
)
def test_a_way_around_a_rule_ends_as_the_docs_say(
    verdict: str, rules: dict[str, list[str]], tmp_path: Path
) -> None:
    found: dict[str, str] = {}
    for words, commands in rules.items():
        check = compile_rule(words)
        assert check is not None, words
        found |= {line: verdict_of(check, of_command(line, tmp_path)) for line in commands}
    assert {line: said for line, said in found.items() if said != verdict} == {}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("Never skip hooks", "git commit -m 'x' -m '- nothing new'"),
        ("Never edit package.json", "git add package.json docs && git commit -m x"),
        ("Never delete any files", "git rm --cached -f settings.json"),
    ],
)
def test_what_real_sessions_did_and_no_rule_forbids(words: str, line: str, tmp_path: Path) -> None:
    check = compile_rule(words)
    assert check is not None
    assert verdict_of(check, of_command(line, tmp_path)) == "allow"


def test_a_rule_about_code_says_nothing_of_a_text_about_code() -> None:
    check = compile_rule("Never use `any`.")
    assert check is not None
    for name, said in (("src/a.ts", "deny"), ("docs/design.md", "allow")):
        fields = {"file_path": name, "content": "const x: any = 1"}
        call = ToolCall(id="1", name="Write", arguments=json.dumps(fields))
        assert verdict_of(check, of_call(call, Path("/app"))) == said


def test_a_tool_that_deletes_is_held_to_a_rule_about_deleting() -> None:
    check = compile_rule(DOCS)
    assert check is not None
    patch = '{"input": "*** Begin Patch\\n*** Delete File: docs/a.md\\n*** End Patch"}'
    for name, arguments in (("delete_file", '{"path": "docs/a.md"}'), ("apply_patch", patch)):
        call = ToolCall(id="1", name=name, arguments=arguments)
        assert verdict_of(check, of_call(call, Path("/app"))) == "deny", name
    edit = ToolCall(id="1", name="write", arguments='{"path": "docs/a.md", "content": "x"}')
    assert verdict_of(check, of_call(edit, Path("/app"))) == "allow"
