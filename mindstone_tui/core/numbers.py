"""Numbers as people read them: tokens, money, durations, ages."""

from datetime import UTC, datetime, timedelta


def tokens(count: int) -> str:
    """`842`, `54.2k`, `1.05M`: three figures are enough for a glance."""
    if abs(count) < 1_000:
        return str(count)
    if abs(count) < 99_950:
        return f"{count / 1_000:.1f}k"
    if abs(count) < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.2f}M"


def size(count: int) -> str:
    """Bytes: `842 B`, `54.2 KB`, `1.3 GB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def megabytes(count: int) -> str:
    """`98 MB`, `1.12 GB`: bytes as a download or a machine's memory is sized."""
    return f"{count / 1e9:.2f} GB" if count >= 999_500_000 else f"{count / 1e6:.0f} MB"


def percent(share: float) -> str:
    """A share of one, as whole percent."""
    return f"{share * 100:.0f} %"


def dollars(cost: float | None, *, unknown: bool = False) -> str:
    """Money spent; a question mark where a price is not known."""
    if cost is None:
        return "$?"
    shown = f"${cost:.2f}" if cost == 0 or cost >= 1 else f"${cost:.4f}"
    return f"{shown}+?" if unknown else shown


def spent(cost: float | None, listed: float | None) -> str:
    """Money, with a sign before it where some is by a list of prices; empty if none is known."""
    known = [each for each in (cost, listed) if each is not None]
    return f"{'~' if listed else ''}{dollars(sum(known))}" if known else ""


def seconds(elapsed: float) -> str:
    """`0.3 s`, `42 s`, `3 min 05 s`, `2 h 10 min`."""
    if elapsed < 9.95:
        return f"{elapsed:.1f} s"
    if (whole := round(elapsed)) < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def local(ts: str) -> str:
    """An ISO timestamp in the reader's own time zone, `2026-01-03 14:05`; the text if it is none.

    One without a time is only a day, and stays it.
    """
    try:
        return datetime.fromisoformat(ts).astimezone().isoformat(" ")[:16] if ts[10:] else ts
    except (ValueError, OverflowError):
        return ts[:16]


def midnight(day: str, after: int = 0) -> float:
    """When a day, or one some days after it, begins where the reader is, in seconds since 1970."""
    # The first year reaches into one that no calendar has.
    begins = datetime.fromisoformat(max(day, "0002-01-01"))
    return (begins + timedelta(days=after)).timestamp()


def day(ts: str) -> str:
    """The day of an ISO timestamp, `3 Jan 2026`; the text itself when it is none."""
    try:
        moment = datetime.fromisoformat(local(ts))
    except ValueError:
        return ts[:10]
    return f"{moment.day} {moment:%b %Y}"


def days(*stamps: str) -> str:
    """From the first to the last of ISO timestamps, `3–9 February`; years where they differ."""
    try:
        ends = [datetime.fromisoformat(local(ts)) for ts in (*stamps[:1], *stamps[-1:])]
    except ValueError:
        return ""
    form = "%B" if len({moment.year for moment in ends}) < 2 else "%B %Y"
    said = list(dict.fromkeys(f"{moment.day} {moment:{form}}" for moment in ends))
    if len(said) == 2 and len({f"{moment:{form}}" for moment in ends}) == 1:
        return f"{ends[0].day}–{said[1]}"
    return " – ".join(said)


def age(ts: str) -> float:
    """Seconds that have passed since an ISO timestamp."""
    return (datetime.now(UTC) - datetime.fromisoformat(ts)).total_seconds()


def ago(moment: datetime, now: datetime) -> str:
    """How long ago something was, in one unit."""
    elapsed = (now.astimezone(UTC) - moment.astimezone(UTC)).total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if elapsed >= size:
            return f"{elapsed // size:.0f} {unit} ago"
    return "just now"
