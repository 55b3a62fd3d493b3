"""How people choose and turn down, and how they set something right."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import AT, VERB, cue

_POINTS_ELSEWHERE: Final = r"(?:that[.! ]*\Z|this(?:[.! ]*\Z|: )|it[.! ]*\Z|them[.! ]*\Z|those[.! ]*\Z)"
"""Words that mean nothing without the message before."""
_LETS: Final = r"\blet'?s (?:just |now |all |definitely |simply |maybe |instead |also )*"

DECISION: Final = (
    cue(
        "decision",
        "let's lets worry bother",
        _LETS + r"(?:try (?:to )?)?(?:go with|go for (?!it)|go back to|use|stick|stay|keep (?!\w+in[g']|up\b|on\b|at it|in touch)|continue using|drop|skip|not\b|leave|limit|switch|pick|choose"
        r"|settle|opt|avoid|defer|postpone|ditch|scrap|align|take|call (?:it|the|this|them)|name|do \S.{0,40}\binstead\b|set (?!up\b|a\b)|put|proceed|default|ignore|forget|hold off|focus on)\b"
        r"(?! (?:a (?:look|minute|moment|break|step|second|chat|call|talk)|the time|care|look|fun|some fun|at it|with (?:this|that)[.!]*\Z|this[.!]*\Z|together|up\b))",
        _LETS + r"(?!talk|discuss|see\b|look)\w+.{1,100}\b(?:instead|rather than|without|for now)\b",
        r"\binstead\b.{1,60}" + _LETS + r"\w",
        _LETS + r"(?:do|write|return|show|render|store)\b.{0,60}`[^`]+`",
        r"(?:\A|\b(?:so|and|please) )don't (?:even )?bother (?:with|about|\w+ing)\b",
        r"\b(?:not|don't|no need to) worry about (?!it\b|that\b|me\b|this\b|them\b|anything\b)\w",
    ),
    cue(
        "decision",
        "mind choose convinced decided decision agreed settled chose chosen picked opted opting going go went yes is then plan say do will shall final",
        r"\b(?:we|i|we've|i've|have|has|was|it's|that's|been)(?: all| both| now| already| finally)? (?:decided|agreed|settled on|chosen|opted|picked)\b(?! (?:with you|a lot|up\b))",
        r"\A(?:final |the )?decision(?: is| made| taken)? ?[:–—-] |\bchanged my mind\b[,;:.–—-]+ *\w+ \w+|\bi choose (?:the|\w+)\b|\bthe (?:final )?decision is\b",
        r"\bdecided (?:to|on|that|against|path)\b|\bsettled on\b|\bopted for\b|\bwe (?:chose|picked)\b",
        r"\b(?:we're|i'm|we are|i am|we'll|i'll|we|i) (?:go|going|went|gonna go) (?:with|for) (?!it\b|this\b|that\b|a (?:walk|run|swim|drive|hike)|walks|runs|my|the gold)\w",
        AT + r"(?:go|going) with (?!it\b[.!]*\Z)\w",
        r"\A(?!(?:how|what|as|that|so|here|there|this|if|where|why)\b)[\w.+#-]+(?: [\w.+#-]+){0,2} it is[.!]*\Z|\A(?:my )?final answer\b",
        r"\A(?!(?:back|until|see|bye|since|now|if|by|and|only|but|even|just|well|what|how|who|not)\b)[\w.+#-]+(?: [\w.+#-]+)? then[.!]*\Z",
        r"\bthe plan is (?:to|that)\b|\bi'd say (?:we|let's) \w|\blet'?s do (?:[b-d]\b|a[.!]*\Z|\d\b|number \w+|the (?:first|second|third|last)\b)",
        r"\b(?:name|title|port|model|default|database|format|language|stack|version|branch|prefix|colou?r|licen[cs]e) (?:will|shall) be \w",
        r"\byou(?:'ve| have)? convinced me\b",
        r"\bthe answer is (?:yes|no)\b|\bthat's (?:decided|settled)\b",
    ),
    cue(
        "decision",
        "instead rather over",
        r"(?:\A|[.…] *)(?:instead of|rather than)\b(?!.*, you (?:went|did|have|just|are|were)\b)(?!.*\b(?:can|could|would|will|should) (?:you|we|i)\b.*\?).{3,}",
        r"\A(?:and |but )?instead[,.…]* (?!of\b)(?:only|we|just|\w+ \w+)",
        AT + VERB + r"\b.{1,120}\b(?:instead|rather than)\b",
        r"\A.{0,60}\binstead(?: of [^,]{3,60},)? (?:just )?(?:(?:have|let) (?:it|them|the \w+) )?" + VERB + r"\b",
        AT + r"(?:do|have|go|put|create|use)\b.{1,120}\b(?:instead|rather than)\b",
        r"\b(?:we|i)(?:'ll| will|'re going to| should| want(?: to)?| can|'d like to| would like to| need to|'m going to) (?:\w+ ){0,3}?\w+ .{1,120}\b(?:instead|rather than)\b",
        r"\A(?:it|they|we|this)? ?\w* ?(?:but )?uses? .{1,80}\binstead of\b|\bbut uses? .{1,80}\binstead of\b",
        r"(?<!it )(?<!that )\b(?:should|better|going to) .{1,140}\b(?:instead of|rather than)\b",
        r"\b(?:i|we)(?:'d| would| should|'ll| will)? (?:also )?(?:love|like|want|prefer|care more).{1,120}\b(?:instead|rather than)\b",
    ),
    cue(
        "decision",
        "don't doesn't won't aren't not need want longer wish think part",
        r"(?:\A|[,;:(.…] *|\b(?:we|i|and|so|but|also|they|just|though|really|actually|still) )(?:don't|do not|won't|will not|no longer)(?: actually| really| even| ever| currently| only| just)?"
        r" (?:need|want|require|wish|care about)\b(?! (?:to (?:know|be|worry|lose|miss|hurt|bother|disturb|impose|hear|talk)|any(?:thing)? (?:help|from|more)|you\b|him|her\b|me\b"
        r"|" + _POINTS_ELSEWHERE + r"))",
        r"\b(?:\w+s|it|that|this) (?:don't|doesn't|does not|do not) (?:need (?:to be )?\w+ed\b|need listed|belong)\b",
        r"\bdon't think (?:i|we)(?:'ll| will) (?:ever )?(?:need|use|implement|want)\b|\bnot as part of\b",
        r"\bdon't think (?:that )?.{0,80}\b(?:we|you|i) (?:really )?need\b",
        r"\b(?:we|i) (?:won't|will not|aren't|are not|'re not|'m not) (?:going to |gonna )?(?:us|fetch|chang|touch|support|do\b|doing|build|ship|add|includ|show|keep|implement|handl|mov|deploy|stor|send|collect|pursu|go with|going with)\w*",
        r"\b(?:does not|doesn't) need to (?:be|have|show|support|know|handle)\b(?! (?:so|that))",
        r"\bwe (?:prob|probably|really|actually|definitely) (?:don't|do not|won't) (?:need|want|care about)\b(?! (?:that|this|it)[.! ]*\Z)",
        r"\bwe (?:don't|do not) care about\b|\bnot (?:through|via|by|with|in|on|from) .{2,40}, (?:but )?rather\b",
        r"\bwe (?:won't|will not) be \w+ing\b|\bwe (?:don't|do not) (?:do|support|offer|ship|use) (?!that\b|this\b|it\b)\w",
        r"\bwe (?:won't|will not) (?!be\b|know|have\b|see\b|get\b|find|miss|need|make it|regret|forget|let\b|always|necessarily|give)\w",
        r"\bwe(?:'re| are)(?: not|n't) (?:going to |gonna )?(?!rely|seeing|getting|having|being|connect|receiv|find|sure|able|there|done|ready|talking|looking|really|even|in\b|on\b|at\b|a\b|the\b|alone|able|allowed|happy|close)\w+(?:ing\b|e\b|\b(?<=going to \w))",
        r"(?:\A|[,;:(] *|\b(?:we|i|and|so) )don't need to (?:keep|have|support|do|add|include|handle|store|maintain|change|update)\b",
        forbids=True,
    ),
    cue(
        "decision",
        "no need needed required necessary",
        r"\bno (?!idea|one|further|more|other)[\w ]{2,30} (?:needed|required|necessary)\b|\bthere will be no\b(?! (?:problem|issue))",
        r"(?<!sometimes there is )\bno need (?:for|to)\b(?! (?:worry|apologi|thank|rush|panic|hurry|be\b|feel))",
        forbids=True,
    ),
    cue(
        "decision",
        "rejected dropped out table discarded abandoned ruled reject scope",
        r"\b(?:is|are|gets?|has been|have been) (?:now )?(?:rejected|dropped|abandoned|off the table|ruled out|out of (?:the question|scope))\b",
        r"\b(?:i|we)(?:'ve| have)? (?:reject|rejected|dropped|abandoned|ruled out)\b(?! (?:your|it\b|them\b|my|that\b|this\b|the (?:kids|ball)))",
        r"\bout of scope\b",
        forbids=True,
    ),
    cue(
        "decision",
        "forget drop skip ditch scrap",
        AT + r"(?:forget|drop|skip|ditch|scrap)(?: about)? (?!it\b|me\b|you\b|in\b|by\b|off\b|a line|to\b|that i\b|and\b|files?\b|table)\w",
        r"\A(?:for|on|in) .{1,30}? (?:forget|drop|skip|ditch|scrap) \w",
        r"\b(?:we|i) (?:can|could|should) (?:simply |just |safely )?(?:forget|drop|skip|ditch|scrap)\b",
        forbids=True,
        imperative=True,
    ),
    cue(
        "decision",
        "option approach variant alternative choice plan proposal solution latter former first second third one",
        r"\b(?:option|approach|variant|alternative|choice|proposal|solution) (?:#? ?\d{1,2}|[a-h])\b",
        r"\b(?:go with|use|using|take|pick|choose|do|like|want|\A) ?the (?:first|second|third|last|former|latter) (?:option|approach|variant|alternative|choice|proposal|solution|one)\b",
    ),
    cue(
        "decision",
        "fine ok okay good works enough",
        r"\b(?:is|are) (?:good )?enough for (?:now|us|me|the moment)\b",
        r"\b(?:i'm|i am|we're) (?:totally |perfectly |also )?(?:fine|ok|okay|good|happy) (?:with|w/) (?!" + _POINTS_ELSEWHERE + r"|how|my|myself|the (?:result|progress))\w",
        r"\A(?!(?:i|it|that|this|everything|all|you|we|he|she|they|things?|which|what|there|so|my|" + VERB + r")\b)[\w`\"'./-]+(?: [\w`\"'./-]+){0,6} (?:is|are) (?:fine|ok|okay|good enough|acceptable)\b",
    ),
    cue(
        "decision",
        "we'll we will using we're should default",
        r"(?<!how )(?<!what )(?<!where )(?<!when )(?<!if )(?<!sure )\bwe(?:'ll| will|'re going to| are going to| going to) (?:just |only |also |still |by default |have to |now )*(?:(?!get\b|create|give|take|say|tell|talk|start|try|check|read|open|turn|wait|review|discuss|list\b|watch|follow|finish)" + VERB + r"|go (?:with|without)|host|specify|focus on|rely|care|have (?:an?|only|two|three|four|the|one))\b"
        r"(?! (?:sure|it\b|fun|great|a (?:great|lot|plan|new plan|look|blast|good|nice)|you|\w+ing\b|up\b|out\b|some|for you|care of|to))",
        r"(?<!sure )(?<!if )(?<!what )(?<!that )(?<!how )\bwe(?:'re| are) (?:now |only |still )?(?:using|going with|switching to|moving to|sticking with|dropping|keeping|targeting|standardi[sz]ing on)\b(?!.{0,60}\b(?:right now|currently|at the moment|today)\b)",
        r"\bby default,? (?:the|it|this|we)\b.{1,60}\b(?:will|should|uses?)\b",
        r"\b(?:we're|we are) (?:ultimately going to\b|going to (?:start|stop) \w+ing\b)",
        r"\bshould be based on\b|\b(?:i'm|i am|we're|we are) (?:not|no longer) using\b",
        r"\bshould (?:be )?(?:built|written|implemented|made|created|done) (?:using|with|in|on top of)\b",
    ),
    cue(
        "decision",
        "want only just single like",
        r"(?<!where )(?<!what )(?<!when )(?<!that )(?<!matter )\bwe (?:now |really |still )?(?:only|just) (?:need (?!rename|to \w+)|care|test|use|support|focus|plot|keep)\b(?! to know)",
        r"\bi (?:still |really |just |do )?(?:want|would like|'d like|would love) to (?:use|stick|keep using|go with|switch|stay)\b",
        r"\bi like (?:the|this|your|that) (?:[\w-]+ ){0,3}(?:idea|approach|option|solution|design|version)\b",
        r"\b(?:we (?:just|only|do)|i only) want\b(?! to (?:know|say|see|ask|check|thank|make sure|understand|be))",
        r"(?<!case )(?<!if )(?<!when )\bwe want (?:to (?:use|make use of|keep|stay|go with|avoid|stick|align|limit|move)|a single|one|the same|only|the flag|no\b)\b",
        r"\bwe want .{3,60} (?:just )?as much as\b",
        r"\b(?:isn't|is not|not) what (?:we|i) want\b.{1,160}\bwant\b",
    ),
    cue(
        "decision",
        "now",
        r"\bfor now,? (?:we|let's|just|use|keep|leave|only|it|i)\b",
        AT + VERB + r"\b.{1,80}\bfor now\b",
        r"\b(?:we|let's|i)(?:'ll| will)? (?:only |just )?\w+ .{1,60}\bfor now[.!]*\Z",
    ),
    cue(
        "decision",
        "only not change",
        r"\bonly,? (?:and )?not\b|\Ano change (?:on|to)\b|\A(?:just |only )?\w+ (?:\d|and|&|, | )*\d only\b",
    ),
    cue(
        "decision",
        "not",
        r"\Ause \S+(?: \S+){0,4}?,? not \S",
        AT + r"(?:use|take|pick|choose|call it|name it|make it|put it in|write|go)\b.{1,60}, not \w",
        r"\b(?:decided|said|agreed|want)\b.{1,60}, not \w",
    ),
    cue(
        "decision",
        "use",
        r"\Ause (?!this\b|that\b|it\b|the following|of\b)[\w.`'\"@+/-]+(?: [\w.`'\"@+/-]+){0,4} (?:for|as|to) (?!me\b|example|now)\w",
        r"\Ause (?:an?|binary|plain|only) \w",
        r"\Ause (?:the (?:existing|same|new|old|latest)|more up to date|\w+ as (?:the|our)|[\w.+#-]+[.!]*\Z)(?! (?:this|it|that)\b)",
        r"; use \w",
    ),
    cue(
        "decision",
        "actually",
        r"\A(?:(?:ok|oh|hmm+|yeah|no|wait|and|but),? )?actually(?:,|,? no,|(?= let's)) ?(?:just |let's |please )*(?:" + VERB + r"|do|go|have)\b(?! (?:this|that)\b[:.])",
        anywhere=True,
    ),
    cue(
        "decision",
        "back revert",
        AT + r"(?:honestly )?(?:go|going|switch|switching) back to\b(?! (?:sleep|bed|work|school|normal))",
    ),
)

_IS: Final = r"(?:is|are|was|were|it's|that's|they're|there's|he's|she's)"
_MEASURED: Final = r"(?=an? (?!lot|great|good|pretty|another|nice|bit|issue)|the |called|named|not |just |optional|caused|[\"'`#]|[\w.-]*\d)(?!used\b|needed|tested|fixed|implemented|present|done|added|created|working|going|doing|true|pretty|really|quite|kind|so\b|very|already|use\b|a (?:lot|great|good|pretty)|good|great|fun|nice|not (?:bad|sure)|been|getting|looking|trying)"

CORRECTION: Final = (
    cue(
        "correction",
        "actually",
        rf"\b{_IS} actually {_MEASURED}\S",
        r"\Aactually,? (?:no,? )?(?:it|that|this|the|they|there|our|my|his|her|all|both)\b.{0,120}\b(?:is|'s|are|'re|was|were|uses?|used|listens?|runs?|lives?|needs?|should|isn't|aren't|wasn't|doesn't)\b",
        r"\b(?:is|are|was|were) (?:wrong|needed|required|there|different|\d\S*),? actually\b",
        r"\b(?:defensible|right|correct|true) actually\b",
        anywhere=True,
    ),
    cue(
        "correction",
        "wrong incorrect false imprecise mistake mistaken true right correct inaccurate contradicts outdated understates mixed backwards old other actual real",
        r"\b(?:is|are|was|were|'s|'re) (?:all |totally |just |simply |plain |a little |a bit |not quite |also )?(?:wrong|incorrect|false|imprecise|a mistake|mistaken|inaccurate|outdated|not (?:right|true|correct|it|accurate))"
        r"(?: \([^)]{1,80}\))? ?[,;:.…–—-]+ *(?:just use|please use|use|it|that|they|the|there|resume|tokens|we|i|you|\w+ (?:is|are|was|were|has|have|uses?|never|listens?|runs?|should)\b)(?!.{0,40}\b(?:doesn't|does not|didn't|still|fails?|broken)\b)",
        r"\byou(?:'ve)? (?:got|have|had) (?:the |that |this |it |my |our )?.{0,40}\b(?:wrong|mixed up|backwards)\b[,;:.…–—-]? +(?!so i\b|i reverted|so we|again|because|try|for)\w.{3,}",
        r"\A(?:this|that|it|which)(?:'s| is)(?: i think| just| simply| clearly)? (?:not true|wrong|incorrect|false|not right|not correct),? (?:because|since|as) .{6,}",
        r"\bthe wrong (?:part|file|one|place|branch|table|column|endpoint|name|path|folder|version|line|page)\b.{0,30}[,;] *(?:i want|it should|use|the|i need|it's)\b",
        r"\Awrong \w+[,.:;] .{4,}|\bthat(?:'s| is) the (?:old|wrong|other) .{1,40}[,;.] *(?:the|it|i|use|we) .{3,}",
        r"\Athe (?:correct|right|actual|real) [\w ]{2,30} (?:is|are|should be|was) \S",
        r"\bcontradicts\b.{3,}",
        r"\bunderstates? it\b",
    ),
    cue(
        "correction",
        "not",
        r"\A(?!(?:this will|make|ensure|use|let's|want|we want|i want|please)\b).{0,80}\b(?:is|are|was|were|it's|that's|they're|needs?|uses?|means?|called|listens? on|runs? on|lives? in|goes|comes|takes|should be|stands for|refers to|belongs)\b"
        r"[^,;?()]{1,90}(?:[,;–—]| -) ?(?:and )?not (?!sure\b|only\b|yet\b|to mention|too|so|really|necessarily|because|that|just|even|bad|least|if|quite|working|exactly|fully|currently|all|matching|seeing|getting)[\w`\"'./-]",
        r"\Anot (?!only|just)\S.{0,40}, (?:it's|it is|it should|they're|that's|but|rather|the)\b.{2,}",
        r"\A(?:actually,? )?(?:it|that|this)(?:'s| is) not (?:about |because of |due to )?.{2,60},? but (?:more|rather|instead|the|about|because|on)\b",
    ),
    cue(
        "correction",
        "isn't aren't wasn't not weren't doesn't don't already",
        r"\A(?:it|that|this|the [\w ]{2,24}) (?:doesn't|does not|isn't|is not) .{2,40}[,;] (?:it|they|that) (?:uses?|has|is|runs?|needs?|returns?|goes|takes|means|lives)\b",
        r"\Ayou(?:'re| are| have|'ve)? (?:just )?(?!know|see|can|could|should|must|may|need|want|might|don't)\w+ .{2,70},? not (?:the |in |on |to |from |with |an? )?[\w`]+(?: \w+){0,4}[.!]*\Z",
        r"\A(?:it|that|those|these|they)(?:'s| is|'re| are| was| were| has| have) already (?!\w+ing)\w",
        r"\A(?:this|that|it)(?:'s| is) not (?:an? |the |about |for )(?!problem|issue|big|bad|good|great|surprise|lot|concern|bad|huge|must)\w",
        r"\A(?:we|there|it|you|they) (?:have|has|are|is|need|needs) \w+(?: \w+){0,3}, not (?:one|two|three|four|\d+|the|a|an)\b",
        r"\b(?:isn't|is not|aren't|are not|'s not|wasn't|was not|weren't|'re not|not)\b(?! (?:just|only|about|enough|working|matching|showing|sure|able|getting|seeing|too|what i wanted))[^?.…]{1,80}[,;:–—-]+ *"
        r"(?:it's|it is|they're|they are|that's|it was|they were|but (?:it's|the|a)|both|bot|we (?:are|have|use))\b(?! (?:just|so|still|not|blank|empty|broken|white|showing))",
    ),
    cue(
        "correction",
        "oops whoops mean mistaken wrong not meant said misspoke mistake correction typo scratch suggested told asked wanted bad mentioned wrote claimed assumed spelled spelt called named pronounced",
        r"\A(?:oops|whoops)[,.! -]+ *\w.{8,}|\bi was (?:mistaken|wrong)\b.{4,}(?: - |, (?:it|the|i) )",
        r"\bi mean i (?:want|need)|\bthere (?:is|are) .{1,40},? not [\"'`]",
        r"\bi meant(?: to say)? (?!that we|well|it\b|a lot|to hurt)[\w./`\"'@]",
        r"\bi mean(?:t)? (?:the|in|on|as in)\b",
        r"\bi (?:already |just |clearly )?(?:said|told you|asked you|asked) to \w",
        r"\bi (?:said|told you|asked for|suggested|wanted)\b.{2,90}(?:\b(?:but you|not|instead|you still|and you)\b|, only)",
        r"\A(?:small )?correction ?[:,–—-] |\bjust a (?:small )?correction\b.{2,}|.{6,}\bjust a correction\W*\Z|\bscratch that\b|\bi misspoke\b|\bmy (?:mistake|bad)[,:;.–—-]+ *\w+ \w+",
        r"\bthat was a typo\b|\Aas (?:i|we)(?:'ve| have)? (?:said|mentioned|told you|wrote)\b.{0,24}, .{4,}",
        r"\byou (?:said|wrote|claimed|told me|assumed)\b.{2,80}\bbut\b .{3,}",
        r"\A(?:it's|it is|that's) (?:spelled|spelt|pronounced)\b",
    ),
    cue(
        "correction",
        "confusing confused mixing mixed overlooking forgetting misunderstood misread misunderstanding conflating",
        r"\byou(?:'re| are|'ve| have)? (?:\w+ )?(?:confusing|mixing|mixed|overlooking|misunderstood|misread|misunderstanding|conflating|confused)\b.{3,}",
    ),
)
