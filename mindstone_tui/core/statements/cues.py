"""The words by which each kind gives itself away.

A cue is looked at only when one of its words stands in the sentence, so an everyday sentence costs
next to nothing. Patterns run over lower-case text, begin with a literal or a short choice, and
never nest repetitions: their cost is linear in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mindstone_tui.core.statements.clause import Clause
from mindstone_tui.core.statements.statement import StatementKind
from mindstone_tui.core.values import Value

# Where a clause may begin: with the sentence, after a break, or after a word that joins.
_AT: Final = (
    r"(?:\A|[,;:(] *|\.{2,} *|… *|[–—-] +"
    r"|\b(?:and|but|so|then|also|just|please|instead|now|still|simply|only) )"
)
_WE: Final = r"\b(?:we|i|you|let's)"
_NOT: Final = r"(?:n't| not)"


class Cue(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A pattern, the kind it speaks for, and the words of which one must be there."""

    kind: StatementKind
    words: frozenset[str]
    pattern: re.Pattern[str]
    anywhere: bool = False
    """Read the sentence as it was said, not only its core."""
    lasting: bool = False
    forbids: bool = False
    imperative: bool = False
    """Counts only where nobody has been named who does it: "we start it but don't wait"."""


def _cue(
    kind: StatementKind,
    words: str,
    *patterns: str,
    anywhere: bool = False,
    lasting: bool = False,
    forbids: bool = False,
    imperative: bool = False,
) -> Cue:
    return Cue(
        kind=kind,
        words=frozenset(words.split()),
        pattern=re.compile("|".join(patterns)),
        anywhere=anywhere,
        lasting=lasting,
        forbids=forbids,
        imperative=imperative,
    )


MEMORY: Final = (
    _cue(
        "memory",
        "remember memorize memorise",
        _AT + r"(?:please |always )?(?:remember|memori[sz]e)\b"
        r"(?! (?:when|how|back|seeing|hearing|correctly|right|being|doing|having|reading|me\b)|[?.!]*\Z)",
        r"\b(?:you should|i want you to|i need you to|can you|could you|please) (?:always )?remember"
        r" (?!when|how|what)",
        lasting=True,
    ),
    _cue(
        "memory",
        "mind",
        r"\b(?:keep|bear|have) (?:it |that |this )?in mind\b(?<!i'll keep in mind)",
        lasting=True,
    ),
    _cue(
        "memory",
        "forget",
        r"\b(?:don't|do not|never) forget (?!it\b|about it\b|your |my )",
        lasting=True,
    ),
    _cue(
        "memory",
        "note notice record memory",
        _AT + r"(?:please )?(?:take note|make a note|note (?:that|down|this)|notice that)\b",
        r"\A(?:please )?for the record\b",
        r"\b(?:save|add|write|put|commit|store) (?:this|that|it)?\b.{0,60}\b(?:to|in|into) (?:your |the )?memory\b",
        anywhere=True,
        lasting=True,
    ),
)

QUESTION: Final = (
    _cue(
        "question",
        "open tbd undecided unresolved unclear unsettled",
        r"(?<!even an )(?<!why the )\bopen (?:question|issue|point|item|matter)\b",
        r"\b(?:remains?|still|leave (?:that|this|it)|left) (?:still )?open\b(?! (?:the|a|in|it|source|and run))",
        r"\b(?:is|are|remains?|it's|still) (?:still |yet |currently )?(?:unclear|undecided|unresolved|unsettled)\b",
        r"\btbd\b",
        r"\bundecided\b",
        anywhere=True,
    ),
    _cue(
        "question",
        "decide decided determined clarified discussed determine clarify agree settle settled choose",
        r"\bto be (?:decided|determined|clarified|discussed|agreed|settled)\b",
        r"\b(?:haven't|have not|hasn't|has not|not|didn't|did not)(?: yet)? (?:yet )?(?:decided?|settled?|agreed?|chosen)\b",
        r"\blet's decide\b",
        r"\b(?:need|needs|have|has|want|remains|going) to (?:still )?(?:decide|determine|clarify|agree|settle|choose)\b",
        r"\b(?:we'll|we will|i'll|i will|we can|should|must) (?:have to |need to )?"
        r"(?:decide|determine|clarify|settle|agree)\b(?! to\b)",
        anywhere=True,
    ),
    _cue(
        "question",
        "figure think revisit back discuss talk park punt circle",
        r"\b(?:still )?(?:need|needs|have|has|want) to (?:figure out|think about|think through|revisit|discuss|sort out)\b",
        r"\b(?:let's|should) (?:figure out|revisit|come back to|get back to|circle back|park|punt)\b",
        r"\blet's (?:discuss|talk about|think about) (?:that|this|it)\b",
        r"\b(?:park|punt on) (?:this|that|it|the)\b",
        anywhere=True,
    ),
    _cue(
        "question",
        "sure unsure know certain clear",
        r"\b(?:not|n't)(?: yet| entirely| quite| really| totally| 100%)? (?:sure|certain|clear)(?: yet)?"
        r" (?:(?:about |on )?(?:what|which|how|where|who|when) (?:the|we|i|it|to)\b|whether|if (?:we|i|it|that|this|the)\b|yet\b)",
        r"\b(?:don't|do not) (?:yet )?know(?: yet)? (?:whether|which|if (?:we|i)|what (?:we|to|i) )",
        r"\bunsure (?:about|what|which|how|whether|if)\b",
        r"\bnot sure\b.{0,120}\b(?:let's discuss|to discuss)\b",
        anywhere=True,
    ),
)

COMMITMENT: Final = (
    _cue(
        "commitment",
        "i'll i i'm",
        r"\bi(?:'ll| will|'m going to|'m gonna| am going to| plan to| promise to) (?!be\b|have to\b|never\b"
        r"|say\b|admit\b|bet\b|guess\b|assume\b|think\b|take that\b|pass\b|need\b|see\b|love\b|miss\b"
        r"|definitely|always\b|not\b|try not|keep (?:that|it|this|you)\b|let you (?:know|go)|do my best"
        r"|cherish|treasure|want\b|like\b|leave you|remember\b|die\b|cry\b)\w",
        r"\bi'll (?:need|have) to (?!admit|say|agree|pass)\w",
        anywhere=True,
    ),
    _cue(
        "commitment",
        "we'll we will next later then afterwards afterward after once soon tomorrow eventually",
        r"\b(?:next|then|later|afterwards?|tomorrow|after that|once \w.{0,60},?|soon|eventually),? (?:we(?:'ll| will|'re going to)|i can)\b",
        r"\bwe(?:'ll| will|'re going to) (?!be\b|have to\b|need to know).{1,90}\b(?:later|next|afterwards?|tomorrow|soon|eventually"
        r"|another time|in a follow-?up|when we (?:get|come)|once we|after (?:the|we|that|this))\b",
        r"\bwe(?:'ll| will) (?:come|get|circle) back\b|(?<!how )\bwe(?:'ll| will) (?:audit|revisit|handle|tackle|follow up)\b",
        anywhere=True,
    ),
    _cue(
        "commitment",
        "later next tomorrow afterwards follow-up followup deferred back",
        _AT + r"(?:do|add|fix|handle|tackle|revisit|address|finish|implement|clean|write|test|deal|come)\b.{1,80}"
        r"\b(?:later|tomorrow|afterwards?|next|in a follow-?up)[.!)]*\Z",
        r"\bneed to come back to\b",
        r"\bdeferred\b.{0,60}\b(?:next|later)\b",
        anywhere=True,
    ),
    _cue(
        "commitment",
        "todo remind before",
        r"\A\W*to-?do\b ?[:\-–—]",
        r"\bremind me (?:to|about|of|that)\b",
        r"\bbefore (?:the|we|this|i|it)\b.{1,60}\b(?:we|i)(?:'ll| will| still)? (?:need|have|must|want)\b(?! to (?:know|understand))",
        r"\b(?:we|i) (?:still )?(?:need|have|must)\b.{1,90}\bbefore (?:the (?:release|merge|launch|demo|deadline|end)|we (?:ship|release|merge|launch))",
        anywhere=True,
    ),
    _cue(
        "commitment",
        "sure end",
        r"\b(?:be|make) sure (?:to|we) (?:get rid of|remove|clean up|delete|revert|undo)\b.{1,60}\b(?:at the end|afterwards|later|when)\b",
    ),
)

RULE: Final = (
    _cue(
        "rule",
        "always",
        _AT + r"always (?!\w+ed\b|been\b|was\b|were\b|had\b|is\b|has\b|did\b|love|wanted|thought|felt|knew)\w",
        r"\b(?:must|should|shall|to|you|we|please|needs? to|has to|have to|can|to be|be|just) always (?!been\b|had|was|were|ha[sd]|wanted|thought|loved|felt|knew|be there)\w",
        lasting=True,
    ),
    _cue(
        "rule",
        "never",
        _AT + r"never (?!\w+ed\b|read\b|mind\b|been\b|had\b|seen\b|heard\b|was\b|were\b|did\b|thought|knew|tried|felt|gets?\b|a dull)\w",
        r"\b(?:must|should|shall|please|may|to) never\b",
        r"\bwe never (?!had|did|got|knew|thought|said|know|wrote|saw|told|asked|been|were|told|listen|ha)\w",
        lasting=True,
        forbids=True,
    ),
    _cue(
        "rule",
        "must mustn't",
        r"(?<!\A)(?<!that )(?<!it )(?<!this )(?<!you )(?<!they )(?<!there )(?<!she )(?<!he )\bmust(?:n't| not| never)?"
        r" (?!have\b|feel\b|'ve\b|seem\b|be (?:a |some|the reason|off|wrong|because|due|hard|tough|nice|so |very |really |missing|why|that))\w",
        r"\b(?:it|this|that|they|you) must(?:n't| not| never| always| only| stay| remain| work| be able| keep| run| return| pass| handle| match| fit)\b",
    ),
    _cue(
        "rule",
        "don't not stop avoid refrain do circumstances means",
        _AT + r"(?:please )?(?:don't|do not) (?:ever )?(?!worry\b|know\b|think\b|understand\b|see\b|get me\b|mind\b|care\b|have\b"
        r"|like\b|want\b|need\b|remember\b|believe\b|you\b|we\b|they\b|i\b|forget\b|even\b|really\b|hesitate|recall"
        r"|agree|quit|miss|give|feel\b|give up|let (?:it|that|this)\b|be (?:sorry|afraid|shy|sad|scared|so|too)|sweat|love|seem|actually)\w",
        _AT + r"(?:stop|avoid|refrain from) (?:\w+ing\b|the \w|any |all |using)",
        r"\b(?:do not|don't) ever\b|\bunder no circumstances\b|\bby no means\b",
        r"\b(?:tell|ask|want|need) you (?:to stop|not to)\b",
        forbids=True,
        imperative=True,
    ),
    _cue(
        "rule",
        "shouldn't should cannot can't may allowed permitted forbidden prohibited limits",
        r"\b(?:we|you) (?:should(?:n't| not)|may not|(?:can't|cannot|can not) ever)\b(?! (?:have|be (?:surprised|worried)|need|worry))",
        r"\b(?:not allowed|not permitted|forbidden|prohibited|off[- ]limits)\b",
        r"\bthat should never\b",
        forbids=True,
    ),
    _cue(
        "rule",
        "should shall needs has",
        r"\bshould (?:always|never|only|remain|stay|at all times|not ever|take precedence)\b",
        r"\b(?:all|every|each|any) (?:\w[\w./-]* ){1,5}(?:should|must|shall|needs? to|ha(?:s|ve) to)\b",
        r"\b(?:everything|everyone|nothing|nobody|no one) (?:should|must|shall|needs? to|ha[sv]e? to|may)\b",
        lasting=True,
    ),
    _cue(
        "rule",
        "no",
        r"(?:\A|[,;:] *|\.{2,} *)(?:and |but |absolutely |also )?no (?!one\b|need\b|problem|prob|worr|idea|thanks?\b|thank|doubt|luck|way\b"
        r"|matter|longer|that|this|it|i\b|you|we\b|they|there|the\b|but|not|don't|rush|pressure|clue|wonder|biggie|big|thx|bueno|joke"
        r"|response|answer|reason|error|luck|result|output|such|on\b|more than|kidding|pain|man\b|dude|first|just|use|let|plan|go\b|kids?\b|place)"
        r"(?:[\w`./-]+ ?){1,5}[.!]*\Z",
        forbids=True,
    ),
    _cue(
        "rule",
        "only",
        _AT + r"only (?:ever |use|show|do|run|write|change|edit|touch|add|commit|push|when|if|in|for|on|include|return|allow|the|modify|answer|reply)\b"
        r"(?! (?:thing|way|difference|problem|issue|reason|one|other|time|then|person|part))",
        r"\b(?:is|are|applies|apply|works?) only (?:available|allowed|for|to|in|on|when|if)\b|\b(?:and|i) only want\b|\bonly appl(?:y|ies) to\b",
        r"\b(?:we|you) (?:should |must |can |may )?only (?:use|ever|support|allow|need|write|run|commit|push|accept)\b",
    ),
    _cue(
        "rule",
        "make be sure ensure careful",
        r"\b(?:make sure|be sure|ensure)\b.{0,80}\b(?:never|always|don't|do not|doesn't|does not|not to|no \w+|only|every|each|stays?|remains?|(?:to )?keep|dry|nothing|without)\b",
        r"\bbe careful (?:not to|with)\b",
    ),
    _cue(
        "rule",
        "keep leave",
        _AT + r"(?:please |always )?keep (?!going|up\b|on\b|at\b|me\b|in\b|it up|working|trying|track|doing|looking|reading|inspiring|shining|fighting|chasing|pushing|being|an eye|this up|that up"
        r"|smiling|rocking|moving|following|that in|this in|it in|you |\w+ing\b)\w",
        _AT + r"(?:please )?leave (?!it\b(?! as)|me\b|for\b|now|a\b|you\b|room\b)(?:\w.{0,80}\b(?:as[- ]is|as (?:it|they) (?:is|are)|alone|untouched|unchanged|in place|intact)\b|(?:the|all|my|any|our) \w)",
    ),
    _cue(
        "rule",
        "now henceforth forward future time whenever default circumstances times onwards",
        r"\b(?:from (?:now|here|this point|today) on(?:wards?)?|henceforth|going forward|moving forward|as of (?:now|today))\b",
        r"\b(?:in (?:the )?future|for (?:all )?future \w+)\b(?=.{0,80}\b(?:use|please|don't|do|should|always|never|make|keep|ask|put|write|run|check)\b)",
        r"\b(?:every|each) time (?:you|we)\b|\bwhenever you\b|\bat all times\b|\bfor the rest of (?:this|the|our) (?:session|project|conversation|chat|work)\b",
        r"\bby default,? (?:use|do|always|write|show|run)\b|\b(?:use|show|run|write)\b.{1,40}\bby default\b",
        anywhere=True,
        lasting=True,
    ),
    _cue(
        "rule",
        "before first until unless without",
        r"\b(?:ask|check with|discuss with|confirm with|consult|tell|show|wait for|get|run (?:it|this|that|them|things) by)(?: me| my| confirmation| approval| permission| it)*\b.{0,60}\b(?:before|first)\b",
        r"\bbefore (?:you )?(?:writ|chang|commit|push|implement|touch|merg|delet|mak|do)\w* (?:any|anything|code|the code|changes)\b",
        r"\A(?:always )?before (?:you )?(?:commit|push|merg|deploy|releas|delet|finish|chang|edit|start)\w*\b.{0,60},",
        _AT + r"(?:do|make|change|push|commit|delete|merge|start|proceed|write).{0,40}\b(?:unless|until) (?:i|you|we)\b",
        r"\bwithout (?:asking|my (?:ok|okay|approval|permission|consent)|touching|changing|breaking|modifying|using|adding)\b(?=.{0,60})",
    ),
    _cue(
        "rule",
        "most least max maximum minimum limit under budget deadline exceed more than",
        r"\b(?:use|write|keep|make|add|answer|give|generate|create|return|show|take|spend|should|must|want|need|have|has|cost|lines?|be|do)\b.{0,60}"
        r"\b(?:at most|no more than|at least|not more than|no longer than|fewer than|maximum of|minimum of) (?:\d|one|two|three|four|five|ten|a )",
        r"\A(?:at most|no more than|at least|not more than|no longer than|maximum|max\.?) (?:of )?\d|\blimit (?:it|this|them|yourself) to \d",
        r"\b\d+(?:-\d+)? (?:lines?|words?|characters?|sentences?|pages?|bullets?|minutes?|files?|paragraphs?) (?:max|maximum|at most|or (?:less|fewer))\b",
        r"\b(?:my|our|the|total|hard) (?:budget|deadline|quota|limit)\b.{0,30}\b(?:is|are|of|:) ",
        r"\bmust(?:n't| not) exceed\b",
    ),
    _cue(
        "rule",
        "answer reply respond speak talk write explain use do be concise brief terse",
        _AT + r"(?:answer|reply|respond|speak|talk|communicate)(?: to me| me)?(?: only| always)? (?:in|with|using|like|as)\b",
        _AT + r"be (?:concise|brief|terse|precise|short|honest|direct|careful|consistent)\b",
        r"\b(?:make|keep) (?:it|them|that|this|your (?:answers?|replies|responses)|answers?|replies|responses) (?:very |as )?(?:concise|brief|short|simple|terse|minimal)\b",
        _AT + r"(?:use|write|do)\b.{1,50}\b(?:for (?:all|every|any|each|new)\b|in (?:all|every|any|each|new)\b|everywhere|throughout|across (?:the|all|every))",
        _AT + r"(?:use\b.{1,40}\bfor \w+ing\b|do (?:all |your |the |any )+\w+ing (?:with|in)\b)",
        _AT + r"use (?:metric|imperial|tabs|spaces|british|american|the metric|conventional)\b",
    ),
    _cue(
        "rule",
        "rule policy convention constraint requirement important required mandatory evict rules conventions constraints requirements",
        r"\A(?:the |a |our |new |hard )?(?:rules?|policy|conventions?|constraints?|requirements?|important)(?: \d+)? ?[:–—-] ",
        r"\b(?:is|are) (?:required|mandatory|not optional)\b(?=[ .!,]|\Z)(?! (?:by|in the)\b)",
        r"\bdo_not_evict\b",
        r"\b(?:our|the|my|house) (?:rule|policy|convention) (?:is|says)\b",
        lasting=True,
    ),
    _cue(
        "rule",
        "may can longer fine ok okay free allowed",
        r"\byou (?:may|can)(?: now| again)* (?:push|commit|use|change|touch|delete|edit|merge|write|add|modify|install|run)\b.{0,60}\b(?:now|again|from now on|after all|without asking)\b",
        r"\b(?:it's|it is|that's) (?:fine|ok|okay|allowed) to\b",
        r"\byou no longer (?:have|need) to\b|\byou (?:don't|do not) (?:have|need) to\b.{1,60}\b(?:anymore|any more|from now on|again)\b",
        r"\b(?:ignore|forget|drop|lift|cancel|scrap) (?:the|that|my|our) (?:rule|constraint|restriction|policy)\b",
    ),
)

PREFERENCE: Final = (
    _cue(
        "preference",
        "prefer preferred preference",
        r"\b(?:i|we)(?:'d| would)? (?:strongly |really |much |generally |usually |personally |always |still |would )*prefer\b",
        r"\bmy (?:personal |own |strong )?(?:preference|preferred)\b",
        r"\A(?:strongly )?prefer\b|\b(?:is|are) (?:my |our )preferred\b|\bour preference\b",
        r"\bpreferred (?:pattern|approach|way|format|style)\b",
        lasting=True,
    ),
    _cue(
        "preference",
        "rather sooner",
        r"\b(?:i|we)(?:'d| would) (?:much |far )?rather\b",
    ),
    _cue(
        "preference",
        "like hate dislike love fan stand annoys annoying",
        r"\bi (?:really |generally |usually |personally |always )?(?:like|love|hate|dislike|don't like|do not like|can't stand) "
        r"(?:it (?:better |more )?when|when (?:you|the|code|things|answers)|to (?:see|have|keep|use|work|get|read|know)|my \w+ \w+|having|seeing|using|reading|short|concise|detailed|your (?:answers|replies)|code)\b",
        r"(?:\A|\bi )(?:don't|do not|didn't) (?:really )?like (?!that[.! ]*\Z|this[.! ]*\Z|it[.! ]*\Z|that at all|to\b|him|her|them[.! ]*\Z)\w",
        r"\b(?:not|isn't|am) a (?:big |huge )?fan of (?!you|his|her)",
        r"\bi'm more comfortable with\b|\bit annoys me\b",
    ),
    _cue(
        "preference",
        "call address me",
        r"\b(?:call|address) me (?!when|if|back|later|tomorrow|at\b|on\b|crazy|every|today|tonight|and\b|to\b|out\b|an?\b|for\b|after|in\b|up\b|sometime|from)\w",
        lasting=True,
    ),
    _cue(
        "preference",
        "want like",
        r"\bi(?:'d)? (?:want|like|expect) you to (?:be|answer|respond|reply|speak|explain|write in|always|never|use)\b",
        r"\bi(?:'d)? (?:want|like|expect) (?:short|concise|brief|long|detailed|your) (?:answers|replies|responses|explanations)\b",
        lasting=True,
    ),
)

DECISION: Final = (
    _cue(
        "decision",
        "let's lets",
        r"\blet'?s (?:just |now |all |definitely |simply |maybe )*(?:go with|go for (?!it)|use|stick|stay|keep (?!\w+in[g']|up\b|on\b|at it|in touch)|drop|skip|not\b|leave|limit|switch|pick|choose"
        r"|settle|opt|avoid|defer|postpone|ditch|scrap|align|take|call (?:it|the|this|them)|name|make it|have|do \S.{0,40}\binstead\b|say|set|put|proceed|default|ignore|forget|hold off)\b"
        r"(?! (?:a (?:look|minute|moment|break|step|second)|the time|care|look|fun|some fun|at it|with this[.!]*\Z|this[.!]*\Z|together))",
        r"\blet'?s (?:do|write|make|return|show|render|store|run|try|rename|move|change)\b.{1,100}\b(?:instead|rather than|not|only|`[^`]+`)",
    ),
    _cue(
        "decision",
        "decided decision agreed settled chose chosen picked opted opting going go went",
        r"\b(?:we|i|we've|i've|have|has|was|it's|that's|been)(?: all| both| now| already| finally)? (?:decided|agreed|settled on|chosen|opted|picked)\b(?! (?:with you|a lot))",
        r"\b(?:decision|the decision is|final decision) ?[:–—-] ",
        r"\bdecided (?:to|on|that|against|path)\b|\bsettled on\b|\bopted for\b|\b(?:i|we) (?:chose|picked)\b",
        r"\b(?:we're|i'm|we are|i am|we'll|i'll|we|i) (?:go|going|went|gonna go) (?:with|for) (?!it\b|this\b|that\b|a (?:walk|run|swim|drive|hike)|walks|runs)\w",
        _AT + r"(?:go|going) (?:with|for) (?!it\b[.!]*\Z)\w",
        r"\bthe answer is (?:yes|no)\b|\bthat's (?:decided|settled)\b",
    ),
    _cue(
        "decision",
        "instead rather over",
        r"(?:\A|[,.…] *)(?:instead of|rather than)\b.{3,}",
        r"\A(?:and |but )?instead[,.…]* (?!of\b)(?:only|we|just|\w+ \w+)",
        _AT + r"(?:use|do|make|have|name|put|move|write|call|show|return|keep|go|set|switch|replace|store|run|build|render|render|create|send|take|read|pass|try)\b.{1,120}\b(?:instead|rather than)\b",
        r"\b(?:we|i)(?:'ll| will|'re going to| should| want(?: to)?| can|'d like to| would like to| need to|'m going to)? (?!are|were|was|had|have)(?:\w+ ){0,2}?(?:use|do|make|have|put|move|write|show|return|keep|go|set|switch|replace|store|run|build|not \w+|want)\b.{1,120}\b(?:instead|rather than)\b",
        r"\buse[sd]? .{1,80}\binstead of\b",
        r"\b(?:should|better|want|going to|let's|could) .{1,100}\b(?:instead|rather than)\b",
    ),
    _cue(
        "decision",
        "don't doesn't won't aren't not need want longer needn't",
        r"(?:\A|[,;:(.…] *|\b(?:we|i|and|so|but|it|also|they|just|though|really|actually|still) )(?:don't|do not|won't|will not|no longer|doesn't|does not)(?: actually| really| even| ever| currently)?"
        r" (?:need|want|require|care about|belong)\b(?! (?:to (?:know|be|worry|lose|miss|go|hurt|bother|disturb|impose)|that[.! ]*\Z|this(?:[.! ]*\Z|: )|it[.! ]*\Z|any(?:thing)? (?:help|from)|you\b|him|her\b|me\b))",
        r"\b(?:we|i) (?:won't|will not|aren't|are not|'re not|'m not) (?:going to |gonna )?(?:use|using|fetch|fetching|chang|touch|support|do\b|doing|build|ship|add|includ|show|keep|keeping|need|implement|handl|mov|deploy|store|stor|send|collect|bother|pursu|go with|going with|go\b)\w*",
        r"\bwe (?:won't|will not) (?!be\b|know|have\b|see\b|get\b|find|miss|need|make it|regret|forget|let\b|always|necessarily)\w",
        r"\bwe're not (?:going to |gonna )?(?:use|using|fetch|chang|touch|support|do|build|ship|add|includ|show|keep|implement|handl|mov|deploy|stor|send|going with)\w*",
        r"(?:\A|[,;:(] *|\b(?:we|i|and|so) )don't need to (?:keep|have|support|do|add|include|handle|store|maintain|change|update)\b",
        forbids=True,
    ),
    _cue(
        "decision",
        "no need",
        r"\bno need (?:for|to)\b(?! (?:worry|apologi|thank|rush|panic|hurry|be\b|feel))",
        forbids=True,
    ),
    _cue(
        "decision",
        "rejected dropped out table dead discarded abandoned ruled",
        r"\b(?:is|are|was|were|been|gets?) (?:rejected|dropped|discarded|abandoned|off the table|ruled out|out of (?:the question|scope))\b",
        r"\b(?:i|we)(?:'ve| have)? (?:reject|rejected|dropped|discarded|abandoned|ruled out)\b(?! (?:your|it\b|them\b|my|that\b|this\b))",
        r"\bout of scope\b",
        forbids=True,
    ),
    _cue(
        "decision",
        "forget drop skip ditch scrap",
        _AT + r"(?:forget|drop|skip|ditch|scrap)(?: about)? (?!it\b|me\b|you\b|in\b|by\b|off\b|a line|to\b|that i\b|and\b)\w",
        r"\b(?:we|i) (?:can|could|should) (?:forget|drop|skip|ditch|scrap)\b",
        forbids=True,
    ),
    _cue(
        "decision",
        "option approach variant alternative choice",
        r"\b(?:option|approach|variant|alternative|choice|plan|proposal|solution) (?:#? ?\d{1,2}|[a-h])\b(?<!if we go with option \d)",
    ),
    _cue(
        "decision",
        "fine ok okay good works",
        r"\b(?:i'm|i am|we're) (?:totally |perfectly |also )?(?:fine|ok|okay|good|happy) (?:with|w/) (?!that[.! ]*\Z|this[.! ]*\Z|it[.! ]*\Z|how|my|myself|the (?:result|progress))\w",
        r"\A(?!(?:i|it|that|this|everything|all|you|we|he|she|they|things?|which|what|there)\b)[\w`\"'./-]+(?: [\w`\"'./-]+){0,6} (?:is|are) (?:fine|ok|okay|good enough|acceptable)\b",
    ),
    _cue(
        "decision",
        "we'll we will using we're",
        r"(?<!how )(?<!what )(?<!where )(?<!when )\bwe(?:'ll| will|'re going to| are going to|'re gonna) (?:just |only |also |still |then )*(?:use|go with|fetch|store|deploy|switch|migrate|support|build|keep|drop|make|put|ship|host|start|limit|display|move|call|name|rely|stick|have a)\b(?! (?:sure|it\b[.!]*\Z|fun|great|a (?:great|lot|plan|new plan)|you))",
        r"\bwe(?:'re| are) (?:now |only |still )?(?:using|going with|switching to|moving to|sticking with|dropping|keeping|targeting|standardi[sz]ing on)\b",
        r"\b(?:we're|we are) ultimately going to\b",
    ),
    _cue(
        "decision",
        "want only just single",
        r"\b(?:we (?:just|only|do)|i only) want\b(?! to (?:know|say|see|ask|check|thank|make sure|understand|be))",
        r"(?<!case )(?<!if )(?<!when )\bwe want (?:to (?:use|keep|stay|go with|avoid|stick|align|limit|move)|a single|one|the same|only|the flag|blended|no\b)\b",
        r"\b(?:isn't|is not|not) what (?:we|i) want\b.{1,160}\bwant\b",
    ),
    _cue(
        "decision",
        "now",
        r"\bfor now,? (?:we|let's|just|use|keep|leave|only|it|i)\b|\b(?:leave|skip|keep|use|ignore|drop|hardcode|disable|do)\b.{1,60}\bfor now\b",
    ),
    _cue(
        "decision",
        "only not",
        r"\bonly,? (?:and )?not\b|\Ano change (?:on|to|in)\b|\A(?:just |only )?\w+ (?:\d|and|&|, )*\d only\b",
    ),
    _cue(
        "decision",
        "not",
        _AT + r"(?:use|take|pick|choose|call it|name it|make it|put it in|write|go)\b.{1,60}, not \w",
        r"\b(?:decided|said|agreed|want)\b.{1,60}, not \w",
    ),
    _cue(
        "decision",
        "use",
        r"\Ause (?:the (?:existing|same|new|old|latest)|more up to date|\w+ as (?:the|our)|[\w.+#-]+[.!]*\Z)(?! (?:this|it|that)\b)",
        r"; use \w",
    ),
    _cue(
        "decision",
        "back revert",
        _AT + r"(?:honestly )?(?:go|going|revert|switch) back to\b",
    ),
)

CORRECTION: Final = (
    _cue(
        "correction",
        "actually",
        r"\b(?:is|are|was|were|it's|that's|they're|there's|there're|he's|she's) actually (?!used\b|needed|working|going|doing|true|pretty|really|quite|kind|so\b|very|a (?:lot|great|good)|good|great|fun|nice)\S",
        r"\Aactually,? (?:no,? )?(?:it|that|this|the|they|there|our|my|his|her|we|i|you|all|both)\b.{0,120}\b(?:is|'s|are|'re|was|were|has|have|had|uses?|used|listens?|runs?|lives?|needs?|should|meant|isn't|aren't|wasn't|don't|doesn't|works?)\b",
        r"\b(?:is|are|was|were) (?:important|wrong|needed|required|there|different|\d\S*),? actually\b",
        r"\b(?:defensible|right|correct|true) actually\b",
        anywhere=True,
    ),
    _cue(
        "correction",
        "wrong incorrect false imprecise mistake mistaken true right correct inaccurate contradicts misleading outdated understates mixed backwards",
        r"\b(?:is|are|was|were|'s|'re) (?:all |totally |just |simply |plain |a little |a bit |not quite |also )?(?:wrong|incorrect|false|imprecise|a mistake|mistaken|inaccurate|outdated|not (?:right|true|correct|it|accurate))"
        r"(?: \([^)]{1,80}\))?[,;:.…–—-]+ *(?:it|that|they|the|there|resume|tokens|we|i|you|\w+ (?:is|are|was|were|has|have|uses?|never|listens?|runs?|should)\b)",
        r"\byou(?:'ve)? (?:got|have|had) (?:the |that |this |it |my |our )?.{0,40}\b(?:wrong|mixed up|backwards)\b.{0,10}[,;:.…–—-]? *.{3,}",
        r"\bcontradicts\b.{3,}",
        r"\bunderstates? it\b",
    ),
    _cue(
        "correction",
        "not",
        r"\b(?:is|are|was|were|it's|that's|they're|he's|she's|needs?|uses?|means?|called|listens? on|runs? on|lives? in|goes|comes|takes|should be|stands for|refers to|belongs)\b[^,;?]{1,90}[,;(–—-]+ ?(?:and )?not (?!sure\b|only\b|yet\b|to mention|too|so|really|necessarily|because|that|just|even|bad|least|if|quite|working|exactly)[\w`\"'./-]",
        r"\bnot .{1,60}\bbut (?:rather |instead )?(?:the|a|an|in|on|at|from|with|\d|\w+ing)\b",
    ),
    _cue(
        "correction",
        "isn't aren't wasn't not weren't",
        r"\b(?:isn't|is not|aren't|are not|'s not|wasn't|was not|weren't|'re not|not)\b(?! (?:just|only|about|enough))[^?]{1,80}[,;:.…–—-]+ *(?:it's|it is|they're|they are|that's|it was|they were|it should|but (?:it's|the|a)|both|bot|all|we (?:are|have|use))\b",
    ),
    _cue(
        "correction",
        "meant said misspoke mistake correction typo scratch suggested told asked wanted",
        r"\bi (?:meant|mean)(?: to say)? (?!that we|well|it\b|a lot|you\b|to hurt|we |what|if)[\w./`\"'@]",
        r"\bi (?:said|told you|asked for|suggested|wanted)\b.{2,90}(?:\b(?:but you|not|instead|you still|and you)\b|, only)",
        r"\A(?:small )?correction ?[:–—-] |\bscratch that\b|\bi misspoke\b|\bmy (?:mistake|bad)[,:;.–—-]+ *\w+ \w+",
        r"\bthat was a typo\b",
    ),
    _cue(
        "correction",
        "confusing mixing mixed overlooking forgetting misunderstood misread misunderstanding",
        r"\byou(?:'re| are|'ve| have)? (?:\w+ )?(?:confusing|mixing|mixed|overlooking|misunderstood|misread|misunderstanding|conflating|confused)\b.{3,}",
    ),
)

ORDER: Final = (MEMORY, CORRECTION, QUESTION, PREFERENCE, COMMITMENT, RULE, DECISION)
"""Which kind wins when several cues speak: the narrower before the wider."""

_SUBJECT: Final = re.compile(r"\b(?:i|we|they|he|she|it|which|who)\b")


def _index(cues: Iterable[Cue]) -> dict[str, tuple[Cue, ...]]:
    by_word: dict[str, list[Cue]] = {}
    for cue in cues:
        for word in cue.words:
            by_word.setdefault(word, []).append(cue)
    return {word: tuple(found) for word, found in by_word.items()}


_ALL: Final = tuple(cue for group in ORDER for cue in group)
_RANK: Final = {id(cue): at for at, cue in enumerate(_ALL)}
_BY_WORD: Final = _index(_ALL)


def cues_in(clause: Clause) -> Iterator[Cue]:
    """The cues that fit, strongest first."""
    found: dict[int, Cue] = {}
    for word in clause.words & _BY_WORD.keys():
        for cue in _BY_WORD[word]:
            found[_RANK[id(cue)]] = cue
    for rank in sorted(found):
        cue = found[rank]
        text = clause.whole if cue.anywhere else clause.core
        match = cue.pattern.search(text) if text else None
        if match and not (cue.imperative and _has_subject(text, match)):
            yield cue


def _has_subject(text: str, match: re.Match[str]) -> bool:
    """Whether a clause that goes on with "and" or "but" tells what somebody does."""
    return text[match.start() : match.start() + 4].startswith(("and ", "but ", "so ")) and bool(
        _SUBJECT.search(text, 0, match.start())
    )
