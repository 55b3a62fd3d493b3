"""How people ask to be remembered, and say what they like."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import cue

MEMORY: Final = (
    cue(
        "memory",
        "Remember that the demo is on Thursday.",
        "memorise memorize remember",
        within=(
            r"(?:\A|[,;:(] *|\.{2,} *|\b(?:and|but|so|just|please|also"
            r"|always) )(?:remember|memori[sz]e)\b(?! (?:when (?!\w+ing .*\bthat\b)|how"
            r"|back|seeing|hearing|being|doing|having|reading|me\b)|[?.!]*\Z)",
            r"\A(?:when|whenever|if|before|after|once)\b.{3,60},? remember (?:to|that)\b",
            r"\b(?:you should|you must|i want you to|i need you to|can you"
            r"|could you) (?:always |please )?remember (?!when|how|what)",
        ),
        lasting=True,
        imperative=True,
    ),
    cue(
        "memory",
        "Keep in mind that we have no GPU.",
        "aware beware mind point",
        within=(
            r"(?<!i'll )(?<!will )\b(?:keep|bear|have|keeping|bearing) (?:it |that "
            r"|this )?in mind\b",
            r"(?<!to )(?<!will )(?<!should )\bbe aware\b",
            r"\bbeware\b",
            r"\blet me point out\b",
        ),
        lasting=True,
    ),
    cue(
        "memory",
        "Don't forget that I'm on Windows.",
        "forget",
        clause=(r"never forget\b",),
        within=(
            r"(?<!i )(?<!we )(?<!you )\b(?:don't|do not) (?:ever )?forget (?!it\b"
            r"|about it\b|your |my )",
        ),
        lasting=True,
    ),
    cue(
        "memory",
        "Make a note that Lena is the contact for billing.",
        "document know memory note record remember remind rules write",
        start=(
            r"note (?:for later|to self|for (?:you|the future))\b",
            r"(?:please )?for the record\b",
        ),
        clause=(
            r"(?:please )?(?:take note|make a note|please note that)\b",
            r"(?:document|record|write down|log) (?:this|that|what we)\b",
        ),
        within=(
            r"\bjust so (?:you|we) (?:remember|know)\b",
            r"\badd (?:this |it |that )?to (?:the |my |your |our )?(?:cursor |project "
            r"|claude )?rules\b",
            r"\bi(?:'d like to| want to| must| have to)? remind you\b",
            r"\b(?:save|add|write|put|commit|store) (?:this|that|it)?\b.{0,60}\b(?:to|in"
            r"|into) (?:your |the )?(?:long-term )?memory\b",
        ),
        anywhere=True,
        lasting=True,
    ),
)

PREFERENCE: Final = (
    cue(
        "preference",
        "I prefer composition over inheritance.",
        "over person prefer preferably preference preferred",
        start=(r"(?:strongly )?prefer\b", r"preferably \w+ \w"),
        within=(
            r"\bi (?:tend|would|generally|usually) (?:to )?prefer\b",
            r"\b[\w-]+ over [\w-]+ for me\b",
            r"\bi'm (?:more )?of an? \w+ person\b",
            r"\b(?:i|we)(?:'d| would)? (?:strongly |really |much |generally |usually "
            r"|personally |always |still |would )*prefer\b",
            r"\bmy (?:personal |own |strong )?(?:preference|preferred)\b",
            r"\b(?:is|are) (?:my |our )preferred\b",
            r"\bour preference\b",
            r"\bpreferred (?:pattern|approach|way|format|style)\b",
        ),
        lasting=True,
    ),
    cue(
        "preference",
        "I'd rather have one long file than five tiny ones.",
        "rather",
        within=(r"\b(?:i|we)(?:'d| would) (?:much |far )?rather\b",),
    ),
    cue(
        "preference",
        "I don't like nested ternaries.",
        "annoys bothers bugs comfortable detest dislike drives fan fond hate into "
        "irritates keen liek like liked love more stand style taste",
        start=(r"not a (?:big |huge )?fan of",),
        within=(
            r"\bi (?:really |generally |usually |personally |always )?(?:like|love|hate"
            r"|dislike|don't like|do not like|can't stand) (?:it (?:better |more )?when"
            r"|when) (?:you|the|code|errors|logs|tests|commits|functions|files|answers"
            r"|replies|things)\b",
            r"\bi (?:really |generally |usually |personally |always )?(?:like|hate"
            r"|dislike) (?:short|concise|detailed|long|terse|explanations|examples"
            r"|diagrams|tables|bullet|comments|tests|code|my (?:code|answers|commits"
            r"|replies|tests)|your (?:answers|replies))\b",
            r"(?:\A|(?<!if )(?<!case )\bi )(?:don't|do not|didn't) (?:really )?(?:like"
            r"|liek) (?!that[.! ]*\Z|this[.! ]*\Z|it[.! ]*\Z|that at all|to\b|him|her"
            r"|them[.! ]*\Z)\w",
            r"\bi(?:'m| am) (?:a |not a |really a |not really a )?(?:big "
            r"|huge )?fan of (?!you|his|her)",
            r"\bi (?:think i )?liked? (?:the )?[\w -]{2,30} (?:style|better)\b(?! (?:if|now))",
            r"\bi (?:think i )?liked? it (?:much |way )?better\b",
            r"\bi'm more comfortable with\b",
            r"\b(?:it|that) (?:annoys|bugs|bothers|irritates) me\b",
            r"(?<!\Athat )(?<!\Ait )(?<!\Athis )\bdrives me (?:crazy|nuts|mad)\b",
            r"\bi'm not (?:really |that |so )?(?:into|keen on|fond of)\b",
            r"\bi (?:really |do |strongly )?(?:dislike|detest|can't stand) (?!you|him"
            r"|her)\w",
            r"\bi(?:'d| would) love it if you\b",
            r"\bmy (?:taste|style) is\b",
            r"\bi'm more of an?\b",
        ),
    ),
    cue(
        "preference",
        "Call me Ada.",
        "address call",
        within=(
            r"(?<!you )(?<!they )(?<!people )(?<!friends )\b(?:call|address) me (?!when"
            r"|if|back|later|tomorrow|at\b|on\b|crazy|every|today|tonight|and\b|to\b"
            r"|out\b|an?\b|for\b|after|in\b|up\b|sometime|from|old)\w",
        ),
        lasting=True,
    ),
    cue(
        "preference",
        "I want you to be direct with me.",
        "expect like want",
        within=(
            r"\bi(?:'d)? (?:want|like|expect) you to (?:be|answer|respond|reply|speak"
            r"|explain things|write in|always|never)\b",
            r"\bi(?:'d)? (?:want|like|prefer) something (?:more |very |less )?(?!like\b|that\b"
            r"|to\b|else\b)\w",
            r"\bi(?:'d)? (?:want|like|expect) (?:short|concise|brief|long|detailed"
            r"|your) (?:answers|replies|responses|explanations)\b",
        ),
        lasting=True,
    ),
)
