"""What the words on the screen mean, with the numbers of the settings in force.

The app shows all of it on `?`; the guide answers "what is …?" from it. Every number is read from
the settings, so that neither can repeat a default that somebody changed.
"""

from __future__ import annotations

import re

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.values import Value


class Term(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One word on the screen."""

    word: str
    text: str
    about: str = ""
    """A regular expression of what else people call it; the word itself always counts."""
    group: str = ""

    def named_in(self, text: str) -> int:
        """How long the name is by which a text calls it; 0 if it does not."""
        pattern = rf"\b(?:{re.escape(self.word)}{f'|{self.about}' if self.about else ''})\b"
        return max(
            (len(found[0]) for found in re.finditer(pattern, text, re.IGNORECASE)), default=0
        )


def glossary(settings: Settings) -> tuple[Term, ...]:
    """Every word of the screen, in the order in which the panel shows them."""
    return (
        *_window(settings),
        *_shares(settings),
        *_growth(settings),
        *_history(settings),
        *_session(),
    )


def _percent(value: float) -> str:
    return f"{value:g} %"


def _window(settings: Settings) -> tuple[Term, ...]:
    context, zones = settings.context, settings.zones
    return _group(
        "The window",
        Term(
            word="context window",
            about="window",
            text="All that the model reads before it answers: instructions, tools and the recent "
            "conversation. It has a fixed size. What leaves it stays in the transcript.",
        ),
        Term(
            word="token",
            about="tokens",
            text="The unit in which models count text; an English word is about 1.3 of them.",
        ),
        Term(
            word="green",
            about="zones?|yellow|orange|red",
            text="The zone: how full the window is. Green, yellow from "
            f"{_percent(zones.yellow)}, orange from {_percent(zones.orange)}, red from "
            f"{_percent(zones.red)}. A zone is left again "
            f"{zones.hysteresis:g} points below where it began. Zones only inform; the marks act. "
            "In small windows they begin earlier, in very large ones later, and the panel says so.",
        ),
        Term(
            word="trim",
            about="trimmed|trimming|shortened",
            text=f"The mark at {_percent(context.trim)}: from there on older tool results become "
            "one line each, all at once, as soon as that frees "
            f"{_percent(context.trim_step)} of the room; else just before exchanges would leave. "
            "Their full text stays in the transcript.",
        ),
        Term(
            word="prune",
            about="prun\\w+|ceiling|floor|evict\\w*|leaves? the window|forget\\w*",
            text=f"The mark at {_percent(context.ceiling)} (the ceiling): the oldest exchanges "
            f"leave the window until it is {_percent(context.floor)} full (the floor), each only "
            "after it was found again in the index. `/restore` brings one back.",
        ),
        Term(
            word="measured",
            text="The provider counted these tokens itself.",
        ),
        Term(
            word="set by hand",
            text="You set this window yourself: by --context-window, context.window or "
            "models.windows.",
        ),
        Term(
            word="anchored",
            text="The provider's last count, plus our estimate of what was added since.",
        ),
        Term(
            word="estimated",
            text="Counted here, before any provider has confirmed it.",
        ),
        Term(
            word="assumed",
            text="Nobody told us the size of this model's window, so we plan for a careful one. "
            "Set `context.window` to the real size.",
        ),
        Term(
            word="reserve",
            about="output reserve|kept for the answer",
            text="Room that is kept free for the answer. The rest of the window is the usable "
            "room, and every percentage is of that.",
        ),
    )


def _shares(settings: Settings) -> tuple[Term, ...]:
    soft = settings.budget.soft
    return _group(
        "What fills it",
        Term(
            word="budget",
            about="shares?",
            text="Each part of the prompt has a share of the window. At "
            f"{_percent(soft)} it is nearly full. Over it, it gives way: the least used tools come "
            "on demand, recall asks for better passages. Results give way later (see results). "
            "Only the whole is ever refused. `/budget` shows them in figures.",
        ),
        Term(word="system", about="system prompt", text="Identity, rules, project and task."),
        Term(
            word="tools",
            about="tool definitions|tool schemas",
            text="The descriptions of the tools that the model may call. Where they do not fit "
            "their share, the least used are only named, and the model gets one by asking for it. "
            "`/tools` lists them with their size; `/tools off NAME` leaves one out.",
        ),
        Term(word="history", about="message history", text="What you and the model said."),
        Term(
            word="results",
            about="tool results",
            text="What tools gave back. They may take more than their share (the mark on the bar). "
            f"From {_percent(settings.budget.results_hard)} of it on, where the bar is full, the "
            "oldest become one line each until the rest fits the share again; the newest, pinned "
            "ones and those of the running turn stay whole.",
        ),
        Term(
            word="memory",
            about="memory injection",
            text="Recalled passages and approved memories for this turn. When more was found than "
            "its share holds, only the better ones come.",
        ),
        Term(
            word="answer",
            text="The reserve: room that stays free for the model's answer.",
        ),
    )


def _growth(settings: Settings) -> tuple[Term, ...]:
    turns = settings.zones.velocity_turns
    return _group(
        "Growth",
        Term(
            word="growth",
            about="pace|velocity|burn rate|tokens a turn|prunes in",
            text=f"How many tokens a turn adds, averaged over the last {turns} turns, and after "
            "how many turns at that speed the window is pruned.",
        ),
        Term(
            word="spent",
            about="cost|cached|price",
            text="What the requests of this session cost, as far as prices are known; $? where "
            "none is. `cached` is "
            "the part of the last prompt that the provider had read before and charges less for.",
        ),
    )


def _history(settings: Settings) -> tuple[Term, ...]:
    return _group(
        "What left and came back",
        Term(
            word="turn",
            about="turns",
            text="One message of yours with everything it set off, numbered from 1.",
        ),
        Term(
            word="exchange",
            about="exchanges",
            text="All lines of one turn. An exchange leaves and returns whole.",
        ),
        Term(
            word="left the window",
            about="outside|searchable|indexed",
            text="Exchanges that the model no longer reads. They are in the transcript and can be "
            "found by words and by meaning; the number is what restoring one would cost.",
        ),
        Term(
            word="recalled",
            about="recall|score",
            text="Passages from earlier that fit your message, put at the end of this prompt with "
            "their source. The score says how well each fits; nothing comes where nothing fits.",
        ),
        Term(
            word="pinned",
            about="pin|pins|pinning|unpin",
            text="`/pin` keeps an exchange in the window whatever the pressure, `/unpin` lets it "
            f"go. You are warned when pins take more than {_percent(settings.context.pin_budget)}.",
        ),
        Term(
            word="protected",
            text="May not leave now: it is pinned, states the task, is recent or is running.",
        ),
        Term(
            word="checkpoint",
            about="checkpoints?|handoffs?",
            text="The task's state, saved to resume from: goal, open work, decisions. One is saved "
            f"by itself at {_percent(settings.context.checkpoint)}. A handoff carries it into the "
            "next window.",
        ),
        Term(
            word="alert",
            about="alerts|alarms?",
            text="Something the program could not put right by itself, with what you can do.",
        ),
    )


def _session() -> tuple[Term, ...]:
    return _group(
        "The session",
        Term(
            word="session",
            about="sessions",
            text="One conversation with one transcript. `/sessions` lists them, `/new` begins one.",
        ),
        Term(
            word="transcript",
            text="The file in which everything said and done is one line; nothing in it is ever "
            "rewritten.",
        ),
        Term(
            word="policy",
            about="fifo|lru|hybrid|semantic_merge|type_based",
            text="In which order exchanges leave; `/policy` lists the choices.",
        ),
        Term(
            word="mode",
            about="sliding_window|auto_compact|cascade",
            text="How room is made: exchanges leave, or a summary stands for them; `/mode` lists "
            "the choices.",
        ),
        Term(
            word="guide",
            about="local/guide",
            text="The built-in program that answers until you choose a model. It is no language "
            "model: it explains MindStone, quotes what was said and runs simple tools.",
        ),
    )


def _group(name: str, *terms: Term) -> tuple[Term, ...]:
    return tuple(msgspec.structs.replace(term, group=name) for term in terms)
