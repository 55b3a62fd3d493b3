"""How people leave things open, and what they say they will do."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import AT, cue

QUESTION: Final = (
    cue(
        "question",
        "open tbd undecided unresolved unclear unsettled",
        r"(?<!even an )(?<!why the )\bopen (?:question|issue|point|item|matter)\b",
        r"\b(?:remains?|still|leave (?:that|this|it)|left) (?:still )?open\b(?! (?:the|a|in|it|source|and run))",
        r"\b(?:is|are|remains?|it's|still) (?:still |yet |currently )?(?:unclear|undecided|unresolved|unsettled)\b",
        r"\btbd\b|\bundecided\b",
        anywhere=True,
    ),
    cue(
        "question",
        "decide decided determined clarified discussed determine clarify agree agreed settle settled choose chosen",
        r"\bto be (?:decided|determined|clarified|discussed|agreed|settled)\b",
        r"\b(?:haven't|have not|hasn't|has not|not|didn't|did not)(?: yet)? (?:yet )?(?:decided?|settled?|agreed?|chosen)\b",
        r"\blet's decide\b",
        r"\b(?:we|i|you|they)(?:'ll| will)? (?:still |also |first )?(?:need|have|want) to (?:still )?(?:decide|determine|clarify|agree|settle|choose)\b",
        r"\b(?:we'll|we will|i'll|i will|we should) (?:decide|determine|clarify|settle|agree)\b(?! to\b)",
        anywhere=True,
    ),
    cue(
        "question",
        "figure think revisit back discuss talk park punt circle sort",
        r"\b(?:we|i) (?:still )?(?:need|have|want|should|must)(?: to)? (?:still )?(?:figure out|think about|think through|revisit|discuss|sort out)\b",
        r"\b(?:let's|should) (?:figure out|revisit|come back to|get back to|circle back|park|punt)\b",
        r"\blet's (?:discuss|talk about|think about) (?:that|this|it)\b",
        AT + r"(?:park|punt on) (?:this|that|it|the)\b",
        anywhere=True,
    ),
    cue(
        "question",
        "sure unsure know certain clear",
        r"(?:\A|\b(?:i'm|we're|am|are|is|still|and|but|it's|truly|really) )not(?: yet| entirely| quite| really| totally| 100%)? (?:sure|certain|clear)(?: yet)?"
        r" (?:(?:about |on )?(?:what|which|how|where|who|when) (?:the|we|it|to)\b(?! (?:do with it|gives|happened|is happening|use this))|whether|if (?:we|that|this|the)\b|yet\b)",
        r"\b(?:don't|do not) (?:yet )?know(?: yet)? (?:whether|which|if we|what we )",
        r"\bunsure (?:about|what|which|how|whether|if)\b",
        r"\bnot sure\b.{0,120}\b(?:let's discuss|to discuss)\b",
        anywhere=True,
    ),
)

COMMITMENT: Final = (
    cue(
        "commitment",
        "i'll i i'm",
        r"(?<!maybe )(?<!sure )(?<!if )(?<!think )(?<!hope )(?<!doubt )(?<!guess )(?<!when )(?<!what )(?<!how )\b"
        r"i(?:'ll| will|'m going to|'m gonna| am going to| plan to| promise to|'ll also| will also) (?!be (?!sure to)\b|be sure to (?:keep|check|reach|let)|have (?!you)\b|have\b(?! you)|never\b|ever\b|also\b"
        r"|say\b|admit\b|bet\b|guess\b|assume\b|think\b|take that\b|pass\b|need\b|see\b|love\b|miss\b"
        r"|definitely|always\b|not\b|try not|keep\b|let you (?:know|go)|do my best|check (?:it|that|this|them) out"
        r"|cherish|treasure|want\b|like\b|leave you|remember\b|die\b|cry\b|get back up|reach)\w",
        r"(?<!maybe )\bi'll (?:need|have) to (?!admit|say|agree|pass|check|try)\w",
        anywhere=True,
    ),
    cue(
        "commitment",
        "we'll we will next later then afterwards afterward after once soon tomorrow eventually",
        r"\b(?:next|then|later|afterwards?|tomorrow|after that|once \w.{0,60},?|soon|eventually),? (?:we(?:'ll| will|'re going to)|i can)\b(?! (?:have|use|not|only|always)\b)",
        r"(?<!how )\bwe(?:'ll| will|'re going to| are going to| going to) (?!be\b|have to\b|need to know).{1,90}\b(?:later|next|afterwards?|tomorrow|soon|eventually"
        r"|another time|in a follow-?up|when we (?:get|come)|once we|after (?:the|we|that|this|you))\b",
        r"\bwe(?:'ll| will) (?:come|get|circle) back\b|(?<!how )\bwe(?:'ll| will) (?:audit|revisit|handle|tackle|follow up)\b",
        anywhere=True,
    ),
    cue(
        "commitment",
        "later next tomorrow afterwards follow-up followup deferred back",
        AT + r"(?:do|add|fix|handle|tackle|revisit|address|finish|implement|clean|write|test|deal|come)\b.{1,80}"
        r"\b(?:later|tomorrow|afterwards?|next|in a follow-?up)[.!)]*\Z",
        r"\bneed to come back to\b",
        r"\bdeferred\b.{0,60}\b(?:next|later)\b",
        anywhere=True,
    ),
    cue(
        "commitment",
        "todo remind before",
        r"\A\W*to-?do\b ?[:\-–—]",
        AT + r"(?:please |can you |could you )?remind me (?:to|about|of|that)\b",
        r"\bbefore (?:the|we|this|i|it)\b.{1,60}\b(?:we|i)(?:'ll| will| still)? (?:need|have|must|want)\b(?! to (?:know|understand))",
        r"\b(?:we|i) (?:still )?(?:need|have|must)\b.{1,90}\bbefore (?:the (?:release|merge|launch|demo|deadline|end)|we (?:ship|release|merge|launch))",
        anywhere=True,
    ),
    cue(
        "commitment",
        "sure end",
        r"\b(?:be|make) sure (?:to|we) (?:get rid of|remove|clean up|delete|revert|undo)\b.{1,60}\b(?:at the end|afterwards|later|when)\b",
    ),
)
