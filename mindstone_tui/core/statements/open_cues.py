"""How people leave things open, and what they say they will do."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import AT, cue

QUESTION: Final = (
    cue(
        "question",
        "open tbd undecided unresolved unclear unsettled question torn mind remains discussion yet",
        r"(?<!even an )(?<!why the )\bopen (?:question|issue|point|item|matter)\b",
        r"\b(?:remains?|still|leave (?:that|this|it)|left) (?:still )?open\b(?! (?:the|a|in|it|source|and run))",
        r"(?<!anything )(?<!something )\b(?:is|are|remains?|it's|still) (?:still |yet |currently )?(?:unclear|undecided|unresolved|unsettled)\b",
        r"(?:\A|\b(?:is|are|still|remains?|yet)|[:–—-]) *tbd\b|\bundecided\b|\A(?:still )?unclear ?[:–—-]",
        r"\bhaven't (?:yet )?made up my mind\b|\bremains to be seen\b|\b(?:up|open) for discussion\b|\Aopen ?[:–—-] ",
        r"\bno idea yet\b|\bleave (?:the|that|this) .{0,30}\bquestion\b|\bi(?:'m| am) torn between\b",
        anywhere=True,
    ),
    cue(
        "question",
        "decide decided determined clarified discussed determine clarify agree agreed settle settled choose chosen",
        r"\bto be (?:decided|determined|clarified|discussed|agreed|settled)\b(?! by\b)",
        r"\b(?:haven't|have not|hasn't|has not|not|didn't|did not)(?: yet)? (?:yet )?(?:decided?|settled?|agreed?|chosen)\b",
        r"\blet's decide\b",
        r"\b(?:we|i|you|they)(?:'ll| will)? (?:still |also |first )?(?:need|have) to (?:still )?(?:decide|determine|clarify|agree|settle|choose)\b",
        r"\b(?:we'll|we will|i'll|i will|we should) (?:decide|determine|clarify|settle|agree)\b(?! to\b)",
        anywhere=True,
    ),
    cue(
        "question",
        "figure think revisit back discuss talk park punt circle sort decide settle clarify see",
        r"\A(?:still )?(?:need|have) to (?:figure out|decide|settle|agree|clarify)\b",
        r"\b(?:we|i) (?:still )?(?:need|have|want|should|must)(?: to)? (?:still )?(?:figure out|think about|think through|revisit|discuss|sort out)\b",
        r"\b(?:let's|should) (?:figure out|revisit|come back to|get back to|circle back|park|punt)\b(?! (?:why|that-file|the basics|work))",
        r"\blet's (?:discuss|talk about|think about) (?:(?:that|this|it)\b|.{3,60}\b(?:later|next|tomorrow|another|first|soon))",
        r"\bwe(?:'ll| will)? (?:have to|need to|should|must) (?:see|talk about|discuss)\b(?: (?:how|whether|if|what|which|about|the)\b)?.{2,}",
        AT + r"(?:park|punt on) (?:this|that|it|the)\b",
        anywhere=True,
    ),
    cue(
        "question",
        "sure unsure know certain clear",
        r"(?:\A|\b(?:i'm|we're|am|are|is|still|and|but|it's|truly|really) )not(?: yet| entirely| quite| really| totally| 100%)? (?:sure|certain|clear)(?: yet)?"
        r" (?:(?:about |on )?(?:what|which|how|where|who|when) (?:the|we|it|to)\b(?! (?:do with it|gives|happened|is happening|use this))|whether|if we\b|yet\b)",
        r"\b(?:don't|do not) (?:yet )?know(?: yet)? (?:whether|which|if we|what we )",
        r"\b(?:i'm|we're|am|still) unsure (?:about|what|which|how|whether|if)\b",
        r"\bnot sure\b.{0,120}\b(?:let's discuss|to discuss)\b",
        anywhere=True,
    ),
)

COMMITMENT: Final = (
    cue(
        "commitment",
        "i'll i i'm about going",
        r"(?<!maybe )(?<!sure )(?<!if )(?<!think )(?<!hope )(?<!doubt )(?<!guess )(?<!when )(?<!what )(?<!how )\b"
        r"i(?:'ll| will|'m going to|'m gonna| am going to| plan to| promise to|'ll also| will also) (?!be (?!sure to)\b|be sure to (?:keep|check|reach|let)|have (?!you)\b|have\b(?! you)|never\b|ever\b|also\b"
        r"|say\b|admit\b|bet\b|guess\b|assume\b|think\b|take that\b|pass\b|need\b|see\b|love\b|miss\b"
        r"|definitely|always\b|not\b|try not|keep\b|let you (?:know|go)|do my best|check (?:it|that|this|them) out"
        r"|cherish|treasure|want\b|like\b|leave you|remember\b|die\b|cry\b|get back up|reach|get (?:this|an?|the))\w",
        r"\bwe(?:'re| are) about to \w|\Agoing to \w+ .{2,60}\b(?:tomorrow|later|tonight|next|soon|this week)\b|\bi still (?:have|need) to \w",
        r"(?<!maybe )\bi(?:'ll| will) (?:need|have) to (?!admit|say|agree|pass|check|try)\w",
        anywhere=True,
    ),
    cue(
        "commitment",
        "we'll we will let next later then afterwards afterward after once soon tomorrow eventually",
        r"\b(?:next|then|later|afterwards?|tomorrow|after that|once \w.{0,60},?|soon|eventually),? (?:we(?:'ll| will|'re going to)|i can)\b(?! (?:have|use|not|only|always)\b)",
        r"(?<!how )\bwe(?:'ll| will|'re going to| are going to| going to) (?!be\b|have to\b|need to know).{1,90}\b(?:later|next|afterwards?|tomorrow|soon|eventually"
        r"|another time|in a (?:follow-?up|separate|later|different)|when we (?:get|come)|once (?:we|the|it|that|you)|as soon as|after (?:the|we|that|this|you))\b",
        r"\A(?:later|eventually|afterwards|at some point|next week|tomorrow),? (?:we|i) (?:need to|have to|must|should|want to)\b",
        r"\Awill \w+ .{2,60}\b(?:later|tomorrow|tonight|soon|asap|next week)\b|\blet me get back to you\b",
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
