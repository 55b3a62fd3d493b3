"""How people leave things open, and what they say they will do."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import cue

QUESTION: Final = (
    cue(
        "question",
        "The retention period is TBD.",
        "discussion mind open question remains tbd torn unclear undecided unresolved unsettled yet",
        start=(
            r"(?:still )?unclear ?[:–—-]",
            r"open ?[:–—-] ",
        ),
        within=(
            r"(?<!even an )(?<!why the )\bopen (?:question|issue|point|item|matter)\b",
            r"\b(?:remains?|still|leave (?:that|this|it)"
            r"|left) (?:still )?open\b(?! (?:the|a|in|it|source|and run))",
            r"(?<!anything )(?<!something )\b(?:is|are|remains?|it's|still) (?:still "
            r"|yet |currently )?(?:unclear|undecided|unresolved|unsettled)\b",
            r"(?:\A|\b(?:is|are|still|remains?|yet)|[:–—-]) *tbd\b",
            r"\bundecided\b",
            r"\bhaven't (?:yet )?made up my mind\b",
            r"\bremains to be seen\b",
            r"\b(?:up|open) for discussion\b",
            r"\bno idea yet\b",
            r"\bleave (?:the|that|this) .{0,30}\bquestion\b",
            r"\bi(?:'m| am) torn between\b",
        ),
        anywhere=True,
    ),
    cue(
        "question",
        "We haven't decided whether to keep the old API.",
        "agree agreed choose chosen clarified clarify decide decided determine determined "
        "discussed settle settled",
        within=(
            r"\bto be (?:decided|determined|clarified|discussed|agreed|settled)\b(?! by\b)",
            r"\b(?:haven't|have not|hasn't|has not|not|didn't"
            r"|did not)(?: yet)? (?:yet )?(?:decided?|settled?|agreed?|chosen)\b",
            r"\blet's decide\b",
            r"\b(?:we|i|you|they)(?:'ll| will)? (?:still |also |first )?(?:need"
            r"|have) to (?:still )?(?:decide|determine|clarify|agree|settle|choose)\b",
            r"\b(?:we'll|we will|i'll|i will|we should) (?:decide|determine|clarify"
            r"|settle|agree)\b(?! to\b)",
        ),
        anywhere=True,
    ),
    cue(
        "question",
        "Let's come back to the naming later.",
        "back circle clarify decide discuss figure park punt revisit see settle sort talk think",
        start=(r"(?:still )?(?:need|have) to (?:figure out|decide|settle|agree|clarify)\b",),
        clause=(r"(?:park|punt on) (?:this|that|it|the)\b",),
        within=(
            r"\b(?:we|i) (?:still )?(?:need|have|want|should"
            r"|must)(?: to)? (?:still )?(?:figure out|think about|think through|revisit"
            r"|discuss|sort out)\b",
            r"\b(?:let's|should) (?:figure out|revisit|come back to|get back to"
            r"|circle back|park|punt)\b(?! (?:why|@|the basics|work))",
            r"\blet's (?:discuss|talk about|think about) (?:(?:that|this|it)\b"
            r"|.{3,60}\b(?:later|next|tomorrow|another|first|soon))",
            r"\bwe(?:'ll| will)? (?:have to|need to|should|must) (?:see|talk about"
            r"|discuss)\b(?: (?:how|whether|if|what|which|about|the)\b)?.{2,}",
        ),
        anywhere=True,
    ),
    cue(
        "question",
        "I'm not sure yet which queue we should use.",
        "certain clear know sure unsure",
        within=(
            r"(?:\A|\b(?:i'm|we're|am|are|is|still|and|but|it's|truly|really) )not(?: yet"
            r"| entirely| quite| really| totally| 100%)? (?:sure|certain"
            r"|clear)(?: yet)? (?:(?:about |on )?(?:what|which|how|where|who|when) (?:the"
            r"|we|it|to)\b(?! (?:do with it|gives|happened|is happening|use this))"
            r"|whether|if we\b|yet\b)",
            r"\b(?:don't|do not) (?:yet )?know(?: yet)? (?:whether|which|if we|what we )",
            r"\b(?:i'm|we're|am|still) unsure (?:about|what|which|how|whether|if)\b",
            r"\bnot sure\b.{0,120}\b(?:let's discuss|to discuss)\b",
        ),
        anywhere=True,
    ),
)

COMMITMENT: Final = (
    cue(
        "commitment",
        "I'll send you the schema tomorrow.",
        "about going i'll plan promise still will",
        start=(
            r"still (?:need|have) to (?!figure|decide|settle|agree|clarify|know|see\b)\w+ .{3,}",
            r"going to \w+ .{2,60}\b(?:tomorrow|later|tonight|next|soon|this week)\b",
        ),
        within=(
            r"(?<!maybe )(?<!sure )(?<!if )(?<!think )(?<!hope )(?<!doubt )(?<!guess "
            r")(?<!when )(?<!what )(?<!how )(?<!say the word and )\bi(?:'ll| will|'m going to|'m"
            r" gonna"
            r"| am going to| plan to| promise to|'ll also| will also) (?!be (?!sure to)\b"
            r"|be sure to (?:keep|check|reach|let)|have (?!you)\b|have\b(?! you)|never\b|claw"
            r"|ever\b|also\b|say\b|admit\b|bet\b|guess\b|assume\b|think\b|take that\b"
            r"|pass\b|need\b|see\b|love\b|miss\b|definitely|always\b|not\b|try not|keep\b"
            r"|let you\b|put my|refuse|end\b|do my best|check (?:it|that|this|them) out|cherish"
            r"|treasure|want\b|like\b|leave you|remember\b|die\b|cry\b|get back up|reach"
            r"|get (?:this|an?|the))\w",
            r"\bwe(?:'re| are) about to \w",
            r"\bi still (?:have|need) to \w",
            r"(?<!maybe )\bi(?:'ll| will) (?:need|have) to (?!admit|say|agree|pass|check"
            r"|try)\w",
        ),
        anywhere=True,
    ),
    cue(
        "commitment",
        "We'll handle the edge cases later.",
        "after afterward afterwards end eventually going i'll later let let's lets next once "
        "soon then "
        "tomorrow we'll will",
        start=(
            r"(?:later|eventually|afterwards|at some point|next week|tomorrow),? (?:we"
            r"|i) (?:need to|have to|must|should|want to)\b",
            r"will \w+ .{2,60}\b(?:later|tomorrow|tonight|soon|asap|next week)\b",
        ),
        within=(
            r"\b(?:next|then|later|afterwards?|tomorrow|after that|once \w.{0,60},?|soon"
            r"|eventually),? (?:we(?:'ll| will|'re going to)|i can)\b(?! (?:have|use|not"
            r"|only|always)\b)",
            r"(?<!how )\bwe(?:'ll| will|'re going to| are going to| going to) (?!be\b"
            r"|have to\b|need to know).{1,90}\b(?:later|next|afterwards?|tomorrow|(?<!coming )soon"
            r"|eventually|another time|in a (?:follow-?up|separate|later|different)"
            r"|when we (?:get|come)|once (?:we|the|it|that|you|\w+(?: \w+){0,5} (?:is|are)"
            r" (?:done|complete|completed|finished|ready|in|merged))|as soon as"
            r"|at the (?:very )?end"
            r"|after (?:the|we|that|this|you))\b",
            r"\blet'?s (?:resume|continue|pick (?:it|this|that) up|go on|finish|do (?:that|this"
            r"|it|the"
            r" rest))\b.{0,40}\b(?:tomorrow|later|next (?:time|week)|another (?:time|day)"
            r"|on monday)\b",
            r"\blet'?s do (?:this|that|it) (?:when|after|once|later)\b",
            r"\bi(?:'ll| will) do (?:this|that|it|the rest) (?:myself|by hand|manually)\b",
            r"\blet me get back to you\b",
            r"\b(?:save|leave|keep|put|putting|leaving)\b.{1,60}\b(?:off )?for later\b",
            r"\bafter [^,]{3,60}\b(?:is|are) (?:done|complete|completed|finished"
            r"|ready),? we(?:'ll| will)\b",
            r"\bwe(?:'ll| will) (?:come|get|circle) back\b",
            r"(?<!how )\bwe(?:'ll| will) (?:audit|revisit|handle|tackle|follow up)\b",
        ),
        anywhere=True,
    ),
    cue(
        "commitment",
        "Add the French strings later.",
        "afterwards back deferred follow-up followup later next tomorrow",
        clause=(
            r"(?:do|add|fix|handle|tackle|revisit|address|finish|implement|clean|write"
            r"|test|deal|come)\b.{1,80}\b(?:later|tomorrow|afterwards?|next"
            r"|in a follow-?up)[.!)]*\Z",
        ),
        within=(
            r"\bneed to come back to\b",
            r"\bdeferred\b.{0,60}\b(?:next|later)\b",
        ),
        anywhere=True,
    ),
    cue(
        "commitment",
        "Remind me to rotate the keys.",
        "before remind todo",
        start=(r"\W*to-?do\b ?[:\-–—]",),
        clause=(r"(?:please |can you |could you )?remind me (?:to|about|of|that)\b",),
        within=(
            r"(?<!once )(?<!ever )(?<!as )\bbefore (?:the|we|this|i|it)\b.{1,60}\b(?:we|i)(?:'ll|"
            r" will"
            r"| still)? (?:need|have|must|want)\b(?! to (?:know|understand))(?! (?:an?"
            r"|some) questions?)"
            r"(?! some| questions)",
            r"\b(?:we|i) (?:still )?(?:need|have|must)\b.{1,90}\bbefore (?:the (?:release"
            r"|merge|launch|demo|deadline|end)|we (?:ship|release|merge|launch))",
        ),
        anywhere=True,
    ),
    cue(
        "commitment",
        "Be sure to remove the shim at the end.",
        "end sure",
        within=(
            r"\b(?:be|make) sure (?:to|we) (?:get rid of|remove|clean up|delete|revert"
            r"|undo)\b.{1,60}\b(?:at the end|afterwards|later|when)\b",
        ),
    ),
)
