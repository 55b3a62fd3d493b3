"""How people choose and turn down, and how they set something right."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import VERB, cue

_POINTS_ELSEWHERE: Final = (
    r"(?:that[.! ]*\Z|this(?:[.! ]*\Z|: )|it[.! ]*\Z|them[.! ]*\Z|those[.! ]*\Z)"
)
"""Words that mean nothing without the message before."""
_LETS: Final = r"\blet'?s (?:just |now |all |definitely |simply |maybe |instead |also )*"
_MEASURED: Final = (
    r"(?=for (?:an?other|the|my|our) |an? (?!lot|great|good|pretty|another|nice|bit|issue)|the "
    r"|called|named|not |just "
    r"|optional|caused|[\"'`#]|[\w.-]*\d)(?!used\b|needed|tested|fixed|implemented|present"
    r"|done|added|created|working|going|doing|true|pretty|really|quite|kind|so\b|very"
    r"|already|use\b|a (?:lot|great|good|pretty)|good|great|fun|nice|not (?:bad|sure)|been"
    r"|getting|looking|trying)"
)
"""What "actually" sets right: a name, a number, which thing it is."""

DECISION: Final = (
    cue(
        "decision",
        "Let's go with SQLite.",
        "bother let let's lets worry",
        within=(
            _LETS + r"(?:try (?:to )?)?(?:go with|go for (?!it)|go back to|use|stick|stay"
            r"|keep (?!\w+in[g']|up\b|on\b|at it|in touch)|continue using|drop|skip|not\b"
            r"|leave|limit|switch|pick|choose|settle|opt|avoid|defer|postpone|ditch|scrap"
            r"|align|take|call (?:it|the|this|them)|name|do \S.{0,40}\binstead\b"
            r"|set (?!up\b|a\b)|put|proceed (?:with|iteratively)|default|ignore|forget|hold off"
            r"|focus on)\b(?! (?:a (?:look|minute|moment|break|step|second|chat|call"
            r"|talk)|the time|care|look|fun|some fun|at it|with (?:this|that)[.!]*\Z"
            r"|this[.!]*\Z|together|up\b))",
            _LETS + r"(?!talk|discuss|see\b|look)\w+.{1,100}\b(?:instead|rather than|without"
            r"|for now)\b",
            r"\blet'?s just (?!see|look|check|talk|say\b)\w",
            _LETS + r"(?:do|try|take|start with) (?:priority|phase|number|option|item|#) ?\w",
            r"\Alet use \w",
            r"\binstead\b.{1,60}" + _LETS + r"\w",
            _LETS + r"(?:remove|delete|get rid of|turn off|disable|stop using|kill)\b.{2,60}"
            r"\b(?:entirely|completely|altogether|for good)\b",
            _LETS + r"(?:do|write|return|show|render|store)\b.{0,60}`[^`]+`",
            r"(?:\A|\b(?:so|and|please) )don't (?:even )?bother (?:with|about|\w+ing)\b",
            r"\b(?:not|don't|no need to) worry about (?!it\b|that\b|me\b|this\b|them\b"
            r"|anything\b)\w",
        ),
    ),
    cue(
        "decision",
        "We decided to ship without the importer.",
        "agreed choose chose chosen convinced decided decision do final go going is mind "
        "opted opting picked plan say settled shall then went will yes",
        start=(
            r"(?:final |the )?decision(?: is| made| taken)? ?[:–—-] ",
            r"(?!(?:how|what|as|that|so|here|there|this|if|where"
            r"|why)\b)[\w.+#-]+(?: [\w.+#-]+){0,2} it is[.!]*\Z",
            r"(?:my )?final answer\b",
            r"(?!(?:back|until|see|bye|since|now|if|by|and|only|but|even|just|well|what"
            r"|how|who|not)\b)[\w.+#-]+(?: [\w.+#-]+)? then[.!]*\Z",
        ),
        clause=(r"(?:go|going) with (?!it\b[.!]*\Z)\w",),
        within=(
            r"\b(?:we|i|we've|i've|have|has|was|it's|that's|been)(?: all| both| now"
            r"| already| finally)? (?:decided|agreed|settled on|chosen|opted"
            r"|picked)\b(?! (?:with you|a lot|up\b))",
            r"\bchanged my mind\b[,;:.–—-]+ *\w+ \w+",
            r"\bi (?:choose|chose|picked|opted for|went with) (?!to\b|it\b)(?:the|\w+)\b",
            r"\bthe (?:final )?decision is\b",
            r"\bdecided (?:to|on|that|against|path)\b",
            r"\bsettled on\b",
            r"\bopted for\b",
            r"\bwe (?:chose|picked)\b",
            r"\b(?:we're|i'm|we are|i am|we'll|i'll|we|i) (?:go|going|went"
            r"|gonna go) (?:with|for) (?!it\b|this\b|that\b|a (?:walk|run|swim|drive"
            r"|hike)|walks|runs|my|the gold)\w",
            r"\bthe plan is (?:to|that)\b",
            r"\bi'd say (?:we|let's) \w",
            r"\blet'?s do (?:[b-d]\b|a[.!]*\Z|\d\b|number \w+|the (?:first|second|third"
            r"|last)\b)",
            r"\b(?:name|title|port|model|default|database|format|language|stack|version"
            r"|branch|prefix|colou?r|licen[cs]e) (?:will|shall) be \w",
            r"\byou(?:'ve| have)? convinced me\b",
            r"\bthe answer is (?:yes|no)\b",
            r"\bthat's (?:decided|settled)\b",
        ),
    ),
    cue(
        "decision",
        "Use Redis instead of Memcached.",
        "instead over rather",
        start=(
            r"(?:and |but )?instead[,.…]* (?!of\b)(?:only|we|just|\w+ \w+)",
            r".{0,60}\binstead(?: of [^,]{3,60},)? (?:just )?(?:(?:have|let) (?:it|them"
            r"|the \w+) )?" + VERB + r"\b",
            r"(?:it|they|we|this)? ?\w* ?(?:but )?uses? .{1,80}\binstead of\b",
        ),
        clause=(
            VERB + r"\b.{1,120}\b(?:instead|rather than)\b",
            r"(?:do|have|go|put|create|use)\b.{1,120}\b(?:instead|rather than)\b",
        ),
        within=(
            r"(?:\A|[.…] *)(?:instead of|rather than)\b(?!.*, you (?:went|did|have|just"
            r"|are|were)\b)(?!.*\b(?:can|could|would|will|should) (?:you|we|i)\b.*\?).{3,}",
            r"\b(?:we|i)(?:'ll| will|'re going to| should| want(?: to)?| can|'d like to"
            r"| would like to| need to"
            r"|'m going to) (?:\w+ ){0,3}?\w+ .{1,120}\b(?:instead|rather than)\b",
            r"\bbut uses? .{1,80}\binstead of\b",
            r"(?<!it )(?<!that )\b(?:should|better|going to) .{1,140}\b(?:instead of"
            r"|rather than)\b",
            r"\bshould\b.{2,80}\binstead[.!]*\Z|\binstead\b.{2,60}\bshould\b",
            r"\b(?:i|we)(?:'d| would| should|'ll| will)? (?:also )?(?:love|like|want"
            r"|prefer|care more).{1,120}\b(?:instead|rather than)\b",
        ),
    ),
    cue(
        "decision",
        "We don't need a migration script.",
        "aren't doesn't don't longer not won't",
        within=(
            r"(?:\A|[,;:(.…] *|\b(?:we|i|and|so|but|also|they|just|though|really|actually"
            r"|still) )(?:don't|do not|won't|will not|no longer)(?: actually| really"
            r"| even| ever| currently| only| just)? (?:need|want|require|wish"
            r"|care about)\b(?! (?:to (?:know|be|worry|lose|miss|hurt|bother|disturb"
            r"|impose|hear|talk)|any(?:thing)? (?:help|from|more)|you\b|him|her\b|me\b|"
            + _POINTS_ELSEWHERE
            + r"))",
            r"\b(?!(?:i|we|you)\b)\w+ (?:don't|doesn't|does not|do not) need (?:an? "
            r"|any )?(?:update|change|test"
            r"|fix)",
            r"\b(?:\w+s|it|that|this) (?:don't|doesn't|does not"
            r"|do not) (?:need (?:to be )?\w+ed\b|need listed|belong)\b",
            r"\bdon't think (?:i|we)(?:'ll| will) (?:ever )?(?:need|use|implement|want)\b",
            r"\bnot as part of\b",
            r"\bdon't think (?:that )?.{0,80}\b(?:we|you|i) (?:really )?(?:need|care)\b",
            r"\b(?:we|i) (?:won't|will not|aren't|are not|'re not|'m not) (?:going to "
            r"|gonna )?(?:us|fetch|chang|touch|support|do\b|doing|build|ship|add|includ"
            r"|show|keep|implement|handl|mov|deploy|stor|send|collect|pursu|go with"
            r"|going with)\w*",
            r"\b(?:does not|doesn't) need to (?:be|have|show|support|know"
            r"|handle)\b(?! (?:so|that))",
            r"\bwe (?:prob|probably|really|actually|definitely) (?:don't|do not"
            r"|won't) (?:need|want|care about)\b(?! (?:that|this|it)[.! ]*\Z)",
            r"\bwe (?:don't|do not) care about\b",
            r"\bnot (?:through|via|by|with|in|on|from) .{2,40}, (?:but )?rather\b",
            r"\bwe (?:won't|will not) be \w+ing\b",
            r"\bwe (?:don't|do not) (?:do|support|offer|ship|use) (?!that\b|this\b|it\b)\w",
            r"\bwe (?:won't|will not) (?!be\b|know|have\b|see\b|get\b|find|miss|need"
            r"|make it|regret|forget|let\b|always|necessarily|give)\w",
            r"\bwe(?:'re| are)(?: not|n't) (?:going to |gonna )?(?!rely|seeing|getting"
            r"|having|being|connect|receiv|find|sure|able|there|done|ready|talking"
            r"|looking|really|even|in\b|on\b|at\b|a\b|the\b|alone|able|allowed|happy"
            r"|close|using the (?:correct|right|same))\w+(?:ing\b|e\b|\b(?<=going to \w))",
            r"(?:\A|[,;:(] *|\b(?:we|i|and|so) )don't need to (?:keep|have|support|do|add"
            r"|include|handle|store|maintain|change|update)\b",
        ),
        forbids=True,
    ),
    cue(
        "decision",
        "There is no need for a second queue.",
        "necessary need needed no required wanted",
        within=(
            r"(?<!that are )(?<!that is )\bno (?!idea|one|further|more|other)[\w ]{2,30}"
            r" (?:needed|required"
            r"|necessary)\b",
            r"\bthere will be no\b(?! (?:problem|issue))",
            r"\A(?!.*\b(?:if|when|why)\b)[^,;?]{3,60} not (?:needed|necessary|required)[.!]*\Z",
            r"\b(?:is|are|'s|'re)(?:n't| not)(?: really| even| at all)? (?:needed|necessary"
            r"|wanted)\b"
            r"(?! (?:to|by|for)\b)",
            r"(?<!sometimes there is )\bno need (?:for|to)\b(?! (?:worry|apologi|thank"
            r"|rush|panic|hurry|be\b|feel))",
        ),
        forbids=True,
    ),
    cue(
        "decision",
        "The old importer is out of scope.",
        "abandoned discarded dropped out reject rejected ruled scope table",
        within=(
            r"\b(?:is|are|gets|has been|have been) (?:now )?(?:rejected|dropped"
            r"|abandoned|off the table|ruled out|out of (?:the question|scope))\b",
            r"\b(?:i|we)(?:'ve| have)? (?:reject|rejected|dropped|abandoned"
            r"|ruled out)\b(?! (?:your|it\b|them\b|my|that\b|this\b|the (?:kids|ball)))",
            r"\bout of scope\b",
        ),
        forbids=True,
    ),
    cue(
        "decision",
        "Forget the admin page.",
        "abandon ditch drop forget ignore leave omit scrap skip",
        start=(r"(?:for|on|in) .{1,30}? (?:forget|drop|skip|ditch|scrap) \w",),
        clause=(
            r"(?:forget|drop|skip|ditch|scrap)(?: about)? (?!it\b|me\b|you\b|in\b|by\b"
            r"|off\b|a line|to\b|that i\b|and\b|files?\b|table)\w",
        ),
        within=(
            r"\b(?:we|i|you) (?:can|could|should) (?:simply |just |safely )?(?:forget|drop"
            r"|skip|ditch|scrap|abandon|omit|ignore|leave out)\b(?! me\b)",
        ),
        forbids=True,
        imperative=True,
    ),
    cue(
        "decision",
        "Go with option B.",
        "alternative approach choice first former latter one option plan proposal second "
        "solution third variant",
        within=(
            r"\A(?!.*\b(?:might|could|would|doesn't|how)\b)(?!option \w{1,2}: ?\w+ \w+ \w+).*\b"
            r"(?:option|approach|variant|alternative|choice|proposal"
            r"|solution) (?:#? ?\d{1,2}|[a-h])\b",
            r"\b(?:go with|use|using|take|pick|choose|do|like|want|\A) ?the (?:first"
            r"|second|third|last|former|latter) (?:option|approach|variant|alternative"
            r"|choice|proposal|solution|one)\b",
        ),
    ),
    cue(
        "decision",
        "I'm fine with a monthly release.",
        "enough fine good ok okay works",
        clause=(
            r"(?!(?:i|if|it|that|this|everything|all|you|we|he|she|they|things?|which|what"
            r"|there|so|my|"
            + VERB
            + r")\b)[\w`\"'./-]+(?: [\w`\"'./-]+){0,6} (?:is|are) (?:fine|ok|okay"
            r"|good enough|acceptable)\b(?! now\b)",
        ),
        within=(
            r"\b(?:is|are) (?:good )?enough for (?:now|us|me|the moment)\b",
            r"\b(?:i'm|i am|we're) (?:totally |perfectly |also )?(?:fine|ok|okay|good"
            r"|happy) (?:with|w/) (?!"
            + _POINTS_ELSEWHERE
            + r"|how|my|myself|the (?:result|progress))\w",
        ),
    ),
    cue(
        "decision",
        "We'll use Postgres for the analytics store.",
        "based be built created default done dropping going implemented keeping made migrated "
        "migrating moved moving planning should "
        "sticking switched use "
        "switching targeting using we'll will written",
        within=(
            r"(?<!how )(?<!what )(?<!where )(?<!when )(?<!if )(?<!sure )\bwe(?:'ll| will"
            r"|'re going to| are going to| going to) (?:just |only |also |still "
            r"|by default |have to |now )*(?:(?!get\b|create|give|take|say|tell|talk"
            r"|start|try|check|read|open|turn|wait|review|discuss|list\b|watch|follow"
            r"|finish|fix|test|document|execute|finali|investigate|continue)"
            + VERB
            + r"|go (?:with|without)|host|specify|focus on|rely|care|have (?:an?|only|two"
            r"|three|four|the|one))\b(?! (?:sure|it\b|fun|great|a (?:great|lot|plan"
            r"|new plan|look|blast|good|nice)|you|\w+ing\b|up\b|out\b|some|for you"
            r"|care of|to))",
            r"(?<!sure )(?<!if )(?<!what )(?<!that )(?<!how )\bwe(?:'re| are) (?:now "
            r"|only |still )?(?:using|going with|switching to|moving to|sticking with"
            r"|dropping|keeping|targeting|standardi[sz]ing on)\b(?!.{0,60}\b(?:right now"
            r"|currently|at the moment|today|so let's)\b)",
            r"\bby default,? (?:the|it|this|we)\b.{1,60}\b(?:will|should|uses?)\b",
            r"\b(?:we're|we are) (?:ultimately going to\b|going to (?:start"
            r"|stop) \w+ing\b)",
            r"\bshould be based on\b",
            r"\b(?:i'm|i am|we're|we are) (?:not|no longer) using\b",
            r"\bwill be (?:called|named) \S",
            r"\bneeds? to be (?:built|written|implemented|made|created|done) (?:using|with|in"
            r"|as)\b",
            r"\bshould (?:be )?(?:built|written|implemented|made|created|done) (?:using"
            r"|with|in|on top of)\b",
            r"\b(?:app|backend|frontend|server|client|api|site|page|script|code|game|tool|database"
            r"|tests?) should be (?:in|on) (?!the\b|a\b|my\b|one\b|line|sync|place)[\w+#.]+[.!]*\Z",
            r"\b(?:i'm|i am|we're|we are) planning (?:to use|on using)\b",
            r"\bwe(?:'ve| have|'re| are)? (?:now |just |already )?(?:switched|migrated|moved"
            r"|migrating|switching)"
            r" (?:over )?(?:(?:our|the) [\w ]{2,40} )?(?:to|from|away) (?!the (?:next|other)"
            r"|another|next|this)\w",
            r"(?:[,;–—-] *|\band )just use (?!it\b|this\b|that\b)\w+",
            r"\A(?!(?:i|we|you|what|which|why|how|if|it|this"
            r"|that)\b)[\w`'\" -]{2,40} should (?:only |just |also )?"
            r"(?:use|be (?:an?|the)? ?[\w-]+ component)\b",
        ),
    ),
    cue(
        "decision",
        "We only want the first page.",
        "just like only should single want",
        within=(
            r"(?<!where )(?<!what )(?<!when )(?<!that )(?<!matter )\bwe (?:now |really "
            r"|still )?(?:only|just) (?:need (?!rename|to \w+)|care|test|use|support"
            r"|focus|plot|keep)\b(?! to know)",
            r"\bi (?:still |really |just |do )?(?:want|would like|'d like"
            r"|would love) to (?:use|stick|keep using|go with|switch|stay)\b",
            r"\bi (?:also )?want (?:also |to also |to )?(?:use|go back to)\b",
            r"\bi'd (?:also |really )?(?:like|love) to (?:use|stick|keep|go with|switch|stay"
            r"|avoid)\b",
            r"\bi (?:still |also )?(?:want|would like|'d like) to (?:maintain|keep|preserve|retain"
            r"|avoid|limit|minimi[sz]e) (?!an eye|track|going|up\b|in touch|it simple)\w",
            r"\bwe should (?:probably |just |all )?(?:use|keep|go with|stick|store|treat) "
            r"(?!in mind|an eye|up\b)\w",
            r"\bi just want (?:it|this|that|the \w+) to (?!work|be\b|know|show|look|sit\b"
            r"|appear)\w",
            r"\b(?:we|i just|i only|i) want (?:an? |something )?(?:minimal|simple|small|basic|plain"
            r"|single|separate|one (?!of|more|last|thing)|both|the same) ?\w",
            r"\bi like (?:the|this|your|that) (?:[\w-]+ ){0,3}(?:idea|approach|option"
            r"|solution|design|version)\b",
            r"\b(?:we (?:just|only|do)|i only|right now i just) want\b(?! to (?:know|say|see|ask"
            r"|check"
            r"|thank|make sure|understand|be))",
            r"(?<!case )(?<!if )(?<!when )\bwe want (?:to (?:use|make use of|keep|stay"
            r"|go with|avoid|stick|align|limit|move)|a single|one|the same|only|the flag"
            r"|no\b)\b",
            r"\bwe want .{3,60} (?:just )?as much as\b",
            r"\b(?:isn't|is not|not) what (?:we|i) want\b.{1,160}\bwant\b",
        ),
    ),
    cue(
        "decision",
        "For now, just hardcode the region.",
        "now",
        clause=(VERB + r"\b.{1,80}\bfor now\b",),
        within=(
            r"\bwill (?:skip|leave|ignore|keep) .{0,30}\bfor now\b",
            r"\bfor now,? (?:we|let's|just|use|keep|leave|only|it|i)\b",
            r"\b(?:we|let's|i)(?:'ll| will)? (?:only |just )?\w+ .{1,60}\bfor now[.!]*\Z",
        ),
    ),
    cue(
        "decision",
        "Pieces 1 and 2 only, not 3.",
        "change not only",
        start=(
            r"no change (?:on|to)\b",
            r"(?:just |only )?\w+ (?:\d|and|&|, | )*\d only\b",
        ),
        within=(r"\bonly,? (?:and )?not\b",),
    ),
    cue(
        "decision",
        "Use bcrypt, not md5.",
        "not",
        start=(r"use \S+(?: \S+){0,4}?,? not \S",),
        clause=(
            r"(?:use|take|pick|choose|call it|name it|make it|put it in|write"
            r"|go)\b.{1,60}, not \w",
        ),
        within=(r"\b(?:decided|said|agreed|want)\b.{1,60}, not \w",),
    ),
    cue(
        "decision",
        "Use Postgres.",
        "use",
        start=(
            r"use (?!this\b|that\b|it\b|the following|of\b"
            r"|.{2,60} to (?:identify|locate|run|fetch|read|fix|find|check|debug|see|determine"
            r"|get|reason|double|research"
            r"|search|look"
            r"|test|verify|review|analy[sz]e|explore|understand|figure|learn|make sure|visit"
            r"|update|create|complete|generate|develop)\b)"
            r"[\w.`'\"@+/-]+(?: [\w.`'\"@+/-]+){0,4} (?:for|as|to) (?!me\b|example|now)\w",
            r"use (?:an?|binary|plain|only) \w",
            r"use (?!this\b|that\b|it\b|your\b|me\b|the (?:following|above|attached|mcp|browser"
            r"|terminal|"
            r"tool|skill|command))(?:the |an? )?[\w.'`@-]+(?: [\w.'`@+&-]+){0,3} ?(?:(?:from|with"
            r"|in|of|via)"
            r" [^,;]{2,60})?(?<!available)(?<!needed)(?<!possible)[.!\"]*\Z",
            r"use (?:the (?:existing|same|new|old|latest)|more up to date|\w+ as (?:the"
            r"|our)|[\w.+#-]+(?: [\w.:-]*\d[\w.]*)?[.!]*\Z)(?! (?:this|it|that)\b)",
        ),
        within=(r"; use \w",),
    ),
    cue(
        "decision",
        "Actually, put the images beside the JSON.",
        "actually",
        start=(
            r"(?:(?:ok|oh|hmm+|yeah|no|wait|and|but),? )?actually(?:,|,? no,"
            r"|(?= let's)) ?(?:just |let's |please )*(?:"
            + VERB
            + r"|do|go|have)\b(?! (?:this|that)\b[:.])",
            r"actually (?:just )?(?!set\b|read\b|fix\b|check\b)"
            + VERB
            + r" (?:it|that|the|them|this|those) \w",
        ),
        anywhere=True,
    ),
    cue(
        "decision",
        "Go back to the plain list.",
        "back revert",
        clause=(
            r"(?:honestly )?(?:we should (?:probably )?)?(?:go|going|switch|switching) back to\b"
            r"(?! (?:sleep|bed|work|school|normal))",
        ),
    ),
)

CORRECTION: Final = (
    cue(
        "correction",
        "The port is actually 8081.",
        "actually",
        start=(
            r"actually,? (?:no,? )?(?:it|that|this|the|they|there|our|my|his|her|all"
            r"|both)\b.{0,120}\b(?:is|'s|are|'re|was|were|uses?|used|listens?|runs?"
            r"|lives?|needs?|should|isn't|aren't|wasn't|doesn't)\b",
        ),
        within=(
            r"\b(?:is|are|was|were|it's|that's|they're|there's|he's|she's) actually "
            + _MEASURED
            + r"\S",
            r"\b(?:is|are|was|were) (?:wrong|needed|required|there|different"
            r"|\d\S*),? actually\b",
            r"\b(?:defensible|right|correct|true) actually\b",
        ),
        anywhere=True,
    ),
    cue(
        "correction",
        "The path is wrong: it should be data/raw.",
        "actual backwards contradicts correct false imprecise inaccurate incorrect "
        "mistake mistaken mixed old other outdated real right true understates wrong",
        start=(
            r"(?:this|that|it|which)(?:'s| is)(?: i think| just| simply"
            r"| clearly)? (?:not true|wrong|incorrect|false|not right"
            r"|not correct),? (?:because|since|as) .{6,}",
            r"wrong \w+[,.:;] .{4,}",
        ),
        within=(
            r"(?<!sure )(?<!ensure )\bthe (?:correct|right|actual|real) (?!hand\b|side\b|reason"
            r"|problem|issue"
            r"|question|way)[\w ]{2,30}"
            r" (?:is|are|should be|was) \S",
            r"\b(?:is|are|was|were|'s|'re) (?:all |totally |just |simply |plain "
            r"|a little |a bit |not quite |also )?(?:wrong|incorrect|false|imprecise"
            r"|a mistake|mistaken|inaccurate|outdated(?!, in)|not (?:right|true|correct|it"
            r"|accurate))(?: \([^)]{1,80}\))? ?[,;:.…–—-]+ *(?:just use|please use|use|it"
            r"|that|they|the|there|resume|tokens|we|i|you|\w+ (?:is|are|was|were|has|have"
            r"|uses?|never|listens?|runs?|should)\b)(?!.{0,40}\b(?:doesn't|does not"
            r"|didn't|still|fails?|broken)\b)",
            r"\byou(?:'ve)? (?:got|have|had) (?:the |that |this |it |my "
            r"|our )?.{0,40}\b(?:wrong|mixed up|backwards)\b[,;:.…–—-]? +(?!so i\b"
            r"|i reverted|so we|again|because|try|for)\w.{3,}",
            r"\bthe wrong (?:part|file|one|place|branch|table|column|endpoint|name|path"
            r"|folder|version|line|page)\b.{0,30}[,;] *(?:i want|it should|use|the|i need"
            r"|it's)\b",
            r"\bthat(?:'s| is) the (?:old|wrong|other) .{1,40}[,;.] *(?:the|it|i|use"
            r"|we) .{3,}",
            r"\bcontradicts\b.{3,}",
            r"\bunderstates? it\b",
        ),
    ),
    cue(
        "correction",
        "The file lives in /etc, not in /opt.",
        "not",
        start=(
            r"(?!(?:this will|here(?:'s| is)|make|ensure|use|let's|want|we want|i want|we should"
            r" always"
            r"|please)\b)(?!.*\b(?:issue|problem|bug) (?:is|seems)\b)"
            r".{0,80}\b(?:is|are|was|were|it's|that's|they're|needs?|uses?"
            r"|means?|called|listens? on|runs? on|lives? in|goes|comes|takes|should be"
            r"|stands for|refers to|belongs)\b[^,;?()]{1,90}(?:[,;–—]"
            r"| -) ?(?:and )?not (?!sure\b|only\b|yet\b|to mention|too|so|really"
            r"|necessarily|because|that|just|even|bad|least|if|quite|working|exactly"
            r"|fully|currently|all|matching|seeing|getting)[\w`\"'./-]",
            r"not (?!only|just)\S.{0,40}, (?:it's|it is|it should|they're|that's|but"
            r"|rather|the)\b.{2,}",
            r"(?:actually,? )?(?:it|that|this)(?:'s| is) not (?:about |because of "
            r"|due to )?.{2,60},? but (?:more|rather|instead|the|about|because|on)\b",
        ),
    ),
    cue(
        "correction",
        "It isn't a race condition, it's a stale cache.",
        "already aren't doesn't don't isn't not wasn't weren't",
        start=(
            r"(?:it|that|this|the [\w ]{2,24}) (?:doesn't|does not|isn't"
            r"|is not) .{2,40}[,;] (?:it|they|that) (?:uses?|has|is|runs?|needs?|returns?"
            r"|goes|takes|means|lives)\b",
            r"you(?:'re| are| have|'ve)? (?:just )?(?!know|see|can|could|should|must|may"
            r"|need|want|might|don't)\w+ .{2,70},? not (?:the |in |on |to |from |with "
            r"|an? )?[\w`]+(?: \w+){0,4}[.!]*\Z",
            r"(?:it|that|those|these|they|(?:that|those|these) \w+)(?:'s| is|'re| are| was| were"
            r"| has"
            r"| have) already (?!\w+ing|done|been|there|have|has|had|working)\w",
            r"(?:this|that|it)(?:'s| is) not (?:an? |the |about |for )(?!problem|issue|option"
            r"|big|bad|good|great|surprise|lot|concern|bad|huge|must)\w",
            r"(?:we|there|it|you|they) (?:have|has|are|is|need"
            r"|needs) \w+(?: \w+){0,3}, not (?:one|two|three|four|\d+|the|a|an)\b",
        ),
        within=(
            r"\b(?:isn't|aren't|is not|are not|wasn't) actually\b(?! (?:used|working|seeing))",
            r"\b(?:isn't|aren't|is not|are not)\b.{2,50}\bbut rather\b",
            r"\b(?:isn't|is not|aren't|are not|'s not|wasn't|was not|weren't|'re not"
            r"|not)\b(?! (?:just|only|about|enough|working|matching|showing|sure|able"
            r"|getting|seeing|too|what i wanted))[^?.…]{1,80}[,;:–—-]+ *(?:it's|it is"
            r"|they're|they are|that's|it was|they were|but (?:it's|the|a)|both|bot"
            r"|we (?:are|have|use))\b(?! (?:just|so|still|not|blank|empty|broken|white"
            r"|showing))",
        ),
    ),
    cue(
        "correction",
        "I meant the staging cluster.",
        "asked asking assumed bad called claimed clarify correction mean meant mentioned misspoke "
        "mistake mistaken named new not oops pronounced reclarify said scratch spelled spelt "
        "talking telling "
        "suggested told typo wanted whoops wrong wrote",
        start=(
            r"(?:oops|whoops)[,.! -]+ *\w.{8,}",
            r"(?:small )?correction ?[:,–—-] ",
            r"to (?:re)?clarify\b,? .{4,}",
            r"as (?:i|we)(?:'ve| have)? (?:said|mentioned|told you|wrote)\b.{0,24}, .{4,}",
            r"(?:it's|it is|that's) (?:spelled|spelt|pronounced)\b",
        ),
        within=(
            r"\bi was (?:mistaken|wrong)\b.{4,}(?: - |, (?:it|the|i) )",
            r"\bi mean i (?:want|need)",
            r"\bi was (?:only |just )?(?:telling you to|talking about|asking (?:you )?(?:for"
            r"|to)) \w",
            r"\bthe new (?:number|name|value|price|url|port|domain|date|title|version"
            r"|address) is \S",
            r"\bi wanted you to (?!know|be\b|see\b)\w",
            r"\bthere (?:is|are) .{1,40},? not [\"'`]",
            r"\bi meant(?: to say)? (?!that we|well|it\b|a lot|to hurt)[\w./`\"'@]",
            r"\bi meant? (?:the|in|on|as in|all|only|both|if|when|redo|use|to|for|with|without)\b",
            r"\A(?!.*\bwhat i mean)\w[^,]* i meant?[.!]*\Z",
            r"\bi (?:already |just |clearly )?(?:said|told you|asked you|asked) to \w",
            r"\bi (?:said|told you|asked for|suggested|wanted)\b.{2,90}(?:\b(?:but you"
            r"|not|instead|you still|and you)\b|, only)",
            r"\bjust a (?:small )?correction\b",
            r"\bscratch that\b",
            r"\bi misspoke\b",
            r"\bmy (?:mistake|bad)[,:;.–—-]+ *\w+ \w+",
            r"\bthat was a typo\b",
            r"\byou (?:said|wrote|claimed|told me|assumed)\b.{2,80}\bbut\b .{3,}",
        ),
    ),
    cue(
        "correction",
        "You mixed up the two environments: blue is live.",
        "conflating confused confusing forgetting forgot ignored isn't misread missed "
        "misunderstanding misunderstood mixed mixing overlooked overlooking referring skipped "
        "talking",
        within=(
            r"(?<!means )\byou (?:completely |still |also )?(?:forgot|missed|skipped|ignored"
            r"|overlooked)"
            r" (?!it\b|that\b|this\b|me\b)(?:\w+[ ,.]){3,}",
            r"(?:\A|, )i(?:'m| am| was) (?:referring to|talking about) (?!you)\w.{6,}",
            r"\bisn't just\b.{3,60}\bit'?s (?:for|also|about|a|the)\b",
            r"\byou(?:'re| are|'ve| have)? (?:\w+ )?(?:confusing|mixing|mixed|overlooking"
            r"|misunderstood|misread|misunderstanding|conflating|confused)\b.{3,}",
        ),
    ),
)
