"""Writing a shorter text from originals: by a model that is audited, else by choosing sentences.

A text that a model wrote is audited and repaired: lines that name what its source does not name are
taken out, names and numbers that it lost are added, and what people settled follows word for word
whatever the model wrote. Only a text that is no answer, or that lost most, is asked for once more;
then sentences of the originals stand in. When nothing is gained, nothing changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import CascadeSettings, ModelSettings
from mindstone_tui.core.context import digest, extract, prompts
from mindstone_tui.core.context.summary_call import Ask, Count, ask_model, asked_about
from mindstone_tui.core.entries import Message, Part, derived, window
from mindstone_tui.core.statements.register import Register
from mindstone_tui.core.text import as_data, fresh_nonce
from mindstone_tui.core.values import Value, shared


class Material(Part):
    """What is to become shorter."""

    passages: tuple[extract.SourceMessage, ...]
    approvals: tuple[str, ...] = ()
    """Permissions that outlive their call; kept word for word."""
    rules: tuple[str, ...] = ()
    """What a summary carried that makes place for this one, each with its kind."""
    level: int = 0
    """For `progressive`: 1 to 3."""


class Summarizer(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """Who writes, and how much it may read at once."""

    count: Count
    ask: Ask | None = None
    """None when no model may be asked: then sentences of the originals are chosen."""
    model: str = ""
    timeout: float = ModelSettings().aside_timeout
    room: int = 24_000
    """Tokens of originals in one request."""
    nonce: Callable[[], str] = fresh_nonce
    short_result: int = CascadeSettings().result_tokens
    """Tool results up to this many tokens are left alone."""


class Summary(derived.ShorterText):
    """A shorter text, with all that an entry says about it."""

    why: str = ""
    """Why sentences of the originals stand in for a model's text."""
    calls: int = 0

    def entry(self, state: window.WindowState | None = None) -> derived.SummaryDerived:
        """What the transcript remembers of it."""
        return derived.SummaryDerived(**shared(derived.ShorterText, self), state=state)


class Unchanged(Part):
    """Nothing is replaced, and why."""

    strategy: str
    why: str
    calls: int = 0


DELEGATED_RESULT: Final = 2_000
"""The most that a sub-agent may bring back, in tokens."""
AGES: Final = CascadeSettings().ages
"""Ages in turns up to which the first and the second level hold; the last, a title, has no end."""
LAST_LEVEL: Final = 3


class Recipe(Part):
    """How a strategy makes a text shorter: to a part of it, in tokens within bounds."""

    prompt: str = ""
    percent: int = 0
    least: int = 0
    most: int = 0
    limits: extract.ExtractLimits = extract.SURVIVORS
    notes: bool = False
    """Each line stands alone, in the form of a note."""
    stands_in: bool = True
    """Takes the originals' place in a prompt, and so says what it is and where they are."""


_SPARSE: Final = extract.ExtractLimits(decisions=0, errors=0, paths=4, identifiers=6, numbers=4)
_REPORT: Final = DELEGATED_RESULT * 3 // 4
_TITLES: Final = Recipe()
STRATEGIES: Final[Mapping[str, Recipe]] = {
    # Headed bullets from which the work can go on; rules and open items stay word for word.
    "conversation_compaction": Recipe(prompt="compaction", percent=15, least=120, most=4_000),
    # Self-contained notes, a line each, from what was said.
    "notes": Recipe(prompt="notes", percent=15, least=80, most=2_000, notes=True, stands_in=False),
    # The finding of one long tool result, at about a fifth of its length.
    "tool_result_summary": Recipe(
        prompt="tool_result",
        percent=20,
        least=60,
        most=1_000,
        limits=extract.ExtractLimits(decisions=0, errors=3, paths=8, identifiers=8, numbers=6),
    ),
    # The older an exchange, the less of it; this is the first level.
    "progressive": Recipe(prompt="progressive", percent=30, least=40, most=8_000),
    # What a sub-agent brought back, within its bound.
    "sub_agent": Recipe(
        prompt="sub_agent", least=_REPORT, most=_REPORT, limits=_SPARSE, stands_in=False
    ),
}
_BY_AGE: Final = {
    1: STRATEGIES["progressive"],
    2: Recipe(prompt="progressive", percent=5, least=40, most=8_000, limits=_SPARSE),
    LAST_LEVEL: _TITLES,
}


class Order(Part):
    """One request for a shorter text."""

    strategy: str
    recipe: Recipe
    material: Material
    before: int

    @property
    def target(self) -> int:
        """How many tokens it should have."""
        how = self.recipe
        return max(how.least, min(self.before * how.percent // 100, how.most))


class Written(Part):
    """The text for one batch of originals."""

    text: str
    missed: tuple[str, ...] = ()
    why: str = ""
    calls: int = 0


async def derive(order: Order, summarizer: Summarizer) -> Summary | Unchanged:
    """Write each batch of originals, keep the rules word for word, and see what it was worth."""
    written = [await _write(order, batch, summarizer) for batch in _batches(order, summarizer)]
    text = "\n\n".join(part.text for part in written)
    standing, approvals = binding(order), order.material.approvals
    if order.recipe.notes:
        kept = digest.notes_kept(standing, approvals, text)
    else:
        kept = digest.verbatim(standing, approvals)
    together = Written(
        text=joined(text, kept),
        missed=tuple(fact for part in written for fact in part.missed),
        why="; ".join(dict.fromkeys(part.why for part in written if part.why)),
        calls=sum(part.calls for part in written),
    )
    return settled(order, together, summarizer)


def binding(order: Order) -> Register:
    """What the originals settle and leave open, after what was carried from before them."""
    return extract.settled_in(order.material.passages, digest.carried(order.material.rules))


def settled(order: Order, written: Written, summarizer: Summarizer) -> Summary | Unchanged:
    """The outcome: a summary, unless it is no shorter than what it stands for."""
    text = written.text
    if order.recipe.stands_in:
        text = labelled(text, order.material.passages, summarizer.nonce())
    after = summarizer.count(text)
    if after >= order.before:
        why = f"{after} tokens would stand in for {order.before}: nothing gained"
        return Unchanged(strategy=order.strategy, why=why, calls=written.calls)
    by_model = bool(summarizer.ask and order.recipe.prompt and not written.why)
    return Summary(
        strategy=order.strategy,
        sources=extract.spans_over(order.material.passages),
        text=text,
        tokens_before=order.before,
        tokens_after=after,
        model=summarizer.model if by_model else "deterministic",
        level=order.material.level,
        prompt_version=prompts.load(order.recipe.prompt).version if written.calls else "",
        audit_missed=written.missed,
        fallback=bool(written.why),
        why=written.why,
        calls=written.calls,
    )


def labelled(text: str, passages: extract.Passages, nonce: str) -> str:
    """A derived text for a prompt: called what it is, with the way to its originals, as data."""
    if len(passages) == 1 and passages[0].speaker == "tool":
        one = passages[0]
        said = (
            f"[Shortened: result of {one.name or 'a tool'}, turn {one.turn}. "
            f"The whole result is entry {one.entry}; read_entry shows it.]"
        )
        return f"{said}\n{as_data(text, origin='shortened tool result', nonce=nonce)}"
    turns = sorted({one.turn for one in passages})
    which = f"turn {turns[0]}" if len(turns) == 1 else f"turns {turns[0]} to {turns[-1]}"
    said = (
        f"[Summary of {which}, derived from the transcript, which wins "
        "where they differ. Search the originals with recall; read_entry shows one by its id.]"
    )
    return f"{said}\n{as_data(text, origin='derived summary', nonce=nonce)}"


async def _write(order: Order, passages: extract.Passages, summarizer: Summarizer) -> Written:
    """A model's text, repaired where it is worth it, at the second try at the latest."""
    how = order.recipe
    must = extract.facts_of(passages, how.limits)
    share = _share(order, passages, summarizer)
    plain = (
        digest.as_notes(passages)
        if how.notes
        else digest.extract(passages, must, share, summarizer.count)
    )
    if summarizer.ask is None:
        return Written(text=plain)
    named = msgspec.structs.replace(must, constraints=(), decisions=(), open_items=())
    messages = _messages(order, passages, share, summarizer)
    missed: tuple[str, ...] = ()
    why = ""
    for attempt in (1, 2):
        reply = await ask_model(summarizer.ask, "summary", messages, within=summarizer.timeout)
        why = reply.objection or (digest.notes_form(reply.text) if how.notes else "")
        if not why:
            text, invented = _without_inventions(order, reply.text, passages)
            missed = extract.missing(named, text)
            why = _complaint(missed, invented, named, text)
            if not why:
                return Written(text=_with_names(order, text, missed), missed=missed, calls=attempt)
        messages = [*messages, *_correction(reply.text, why, share)]
    why = f"the model's text was not used ({why}): sentences of the originals stand instead"
    return Written(text=plain, missed=missed, why=why, calls=2)


def _complaint(
    missed: Sequence[str], invented: Sequence[str], named: extract.Facts, left: str
) -> str:
    """Why a text is not worth repairing: it lost most, or little is left of it."""
    wanted = len(named.paths) + len(named.identifiers) + len(named.numbers)
    lost = 2 * len(missed) > wanted
    parts = [
        f"{label}: {', '.join(found[:20])}"
        for label, found in (("it left out", missed), ("it is not in the source", invented))
        if found
    ]
    return "; ".join(parts) if lost or not left.strip() else ""


def _without_inventions(
    order: Order, text: str, passages: extract.Passages
) -> tuple[str, tuple[str, ...]]:
    """A text without the lines that name what its source does not; short numbers may be counts."""
    source = extract.folded(extract.as_text(passages))
    kept: list[str] = []
    invented: list[str] = []
    for line in text.splitlines():
        names = [name for kind, name in extract.names_in(line) if kind != "number" or len(name) > 3]
        wrong = [name for name in names if not extract.holds(source, extract.folded(name))]
        invented += wrong
        if not wrong and not (
            order.recipe.notes and line.strip() and not digest.NOTE.match(line.strip())
        ):
            kept.append(line)
    return "\n".join(kept), tuple(dict.fromkeys(invented))


def _with_names(order: Order, text: str, missed: Sequence[str]) -> str:
    """A text with the names and numbers that it lost."""
    if not missed:
        return text
    head = "misc | normal | Also named: " if order.recipe.notes else "Also named:\n- "
    return joined(text, head + "; ".join(missed))


def _correction(text: str, why: str, target: int) -> list[Message]:
    said: list[Message] = [{"role": "assistant", "content": text}] if text else []
    again = f"That cannot be used: {why}. Write it again, complete, in at most {target} tokens."
    return [*said, {"role": "user", "content": again}]


def _messages(
    order: Order, passages: extract.Passages, target: int, summarizer: Summarizer
) -> list[Message]:
    how = order.recipe
    prompt = prompts.load(how.prompt).fill(target=target, percent=f"{how.percent}%")
    text = _fitted(extract.as_text(passages), summarizer)
    return asked_about(text, prompt, origin="conversation", nonce=summarizer.nonce())


def _fitted(text: str, summarizer: Summarizer) -> str:
    """One passage larger than a request loses its middle, for the model's eyes only."""
    tokens = summarizer.count(text)
    if tokens <= summarizer.room:
        return text
    half = len(text) * summarizer.room // tokens // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _batches(order: Order, summarizer: Summarizer) -> list[list[extract.SourceMessage]]:
    """The passages in runs that one request can carry, each from the originals."""
    batches: list[list[extract.SourceMessage]] = [[]]
    size = 0
    for passage in order.material.passages:
        tokens = summarizer.count(passage.text)
        if batches[-1] and size + tokens > summarizer.room:
            batches.append([])
            size = 0
        batches[-1].append(passage)
        size += tokens
    return batches


def _share(order: Order, passages: extract.Passages, summarizer: Summarizer) -> int:
    size = sum(summarizer.count(passage.text) for passage in passages)
    return max(40, order.target * size // max(order.before, 1))


def joined(*parts: str) -> str:
    """The parts that are there, a blank line between them."""
    return "\n\n".join(filter(None, parts))


async def summarise(name: str, material: Material, summarizer: Summarizer) -> Summary | Unchanged:
    """A shorter text by the strategy of that name; what is short enough stays as it is."""
    before = sum(summarizer.count(passage.text) for passage in material.passages)
    if name == "progressive" and material.level < 1:
        return Unchanged(strategy=name, why="the current exchange stays as it is")
    short = {"tool_result_summary": summarizer.short_result, "sub_agent": DELEGATED_RESULT}
    if before <= short.get(name, -1):
        return Unchanged(strategy=name, why=f"a result of {before} tokens is short enough")
    recipe = _BY_AGE[min(material.level, LAST_LEVEL)] if name == "progressive" else STRATEGIES[name]
    order = Order(strategy=name, recipe=recipe, material=material, before=before)
    if recipe is not _TITLES:
        return await derive(order, summarizer)
    text = joined(
        digest.titles(material.passages), digest.verbatim(binding(order), material.approvals)
    )
    return settled(order, Written(text=text), summarizer)


def level_of(age: int, ages: tuple[int, int] = AGES) -> int:
    """The level of an exchange that is `age` turns old: 0 is the current one, 3 has no end."""
    return next((level for level, oldest in enumerate((0, *ages)) if age <= oldest), LAST_LEVEL)
