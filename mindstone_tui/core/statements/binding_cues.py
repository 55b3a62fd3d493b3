"""How people bind later work: rules, preferences, and requests to remember."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import AT, VERB, cue

MEMORY: Final = (
    cue(
        "memory",
        "remember memorize memorise",
        r"(?:\A|[,;:(] *|\.{2,} *|\b(?:and|but|so|just|please|also|always) )(?:remember|memori[sz]e)\b"
        r"(?! (?:when (?!\w+ing .*\bthat\b)|how|back|seeing|hearing|being|doing|having|reading|me\b)|[?.!]*\Z)",
        r"\b(?:you should|you must|i want you to|i need you to|can you|could you) (?:always |please )?"
        r"remember (?!when|how|what)",
        lasting=True,
        imperative=True,
    ),
    cue(
        "memory",
        "mind aware beware point",
        r"(?<!i'll )(?<!will )\b(?:keep|bear|have|keeping|bearing) (?:it |that |this )?in mind\b",
        r"\bbe aware\b|\bbeware\b|\blet me point out\b",
        lasting=True,
    ),
    cue(
        "memory",
        "forget",
        r"(?<!i )(?<!we )(?<!you )\b(?:don't|do not) (?:ever )?forget (?!it\b|about it\b|your |my )",
        AT + r"never forget\b",
        lasting=True,
    ),
    cue(
        "memory",
        "note record document write memory remind remember know",
        AT + r"(?:please )?(?:take note|make a note|please note that)\b",
        AT + r"(?:document|record|write down|log) (?:this|that|what we)\b",
        r"\Anote (?:for later|to self|for (?:you|the future))\b|\bjust so (?:you|we) (?:remember|know)\b",
        r"\A(?:please )?for the record\b",
        r"\bi(?:'d like to| want to| must| have to)? remind you\b",
        r"\b(?:save|add|write|put|commit|store) (?:this|that|it)?\b.{0,60}\b(?:to|in|into) (?:your |the )?"
        r"(?:long-term )?memory\b",
        anywhere=True,
        lasting=True,
    ),
)

_NOT_RULED_OUT: Final = (
    r"(?!one\b|need\b|prob|worr|idea|thanks?\b|thank|doubt|luck|way\b|chang|improv|effect|differ|success"
    r"|sign|matter|longer|that|this|it|i\b|you|we\b|they|there|the\b|but|not|don't|rush|pressure|clue"
    r"|wonder|biggie|big|thx|bueno|joke|issue|sound|data\b(?! logic)|files?\b(?! in)|response|answer|reason"
    r"|error|result|output|such|on\b|more than|kidding|pain|man\b|dude|first|just|use|let|plan|go\b|kids?\b"
    r"|place|sorry|wait|content|text|hurry|offen[cs]e|surprise|comment\b|for\b|plot|warning|log|connection"
    r"|module|figure|display|image|judg|regret|shame|drama|guarantee|surprise)"
)
"""What "no" says of the world, and not of what is allowed."""

_NOT_TOLD: Final = (
    r"(?!.*\b(?:was|were|is|are|available|found|provided|given|yet[.!]*\Z|left|at all|exists?|appears?|came)\b)"
)
_NOT_SAID_OF_WORK: Final = (
    r"(?!\w+ed\b|been\b|was\b|were\b|had\b|is\b|has\b|did\b|be there|there\b|here\b|up\b|a\b|the\b|so\b|love"
    r"|thought|felt|knew|ready|happy|good|great|fun|nice|calm|know|happen|seem)"
)

RULE: Final = (
    cue(
        "rule",
        "always",
        rf"(?:\A|[;:(] *|\.{{2,}} *|\b(?:please|just|so|then) )always (?:{VERB}|be|do|have|let|go)\b",
        rf"(?:, *|\b(?:and|but) )always {VERB}\b",
        rf"\b(?:must|should|shall|please|needs? to|has to|have to|ought to|you to) (?:just )?always {_NOT_SAID_OF_WORK}\w",
        rf"\bshould just always\b|\b(?:we|you) (?:want to )?always {VERB}\b|\bwe (?:will |should )?always (?:want|need)\b|\bwe(?:'ll| will) always (?!be\b|have\b|love|remember)\w",
        rf"\A(?:for|when|if|in|on|with|before|after)\b.{{3,80}}?,? (?:you )?always {VERB}\b",
        r"\b(?:make|ensure|so|sure) .{0,60}\b(?:is|are|it|they|we|you) always\b",
        r"(?:\b(?:should|must|use|be)|\A" + VERB + r")\b.{3,60}, always[.!]*\Z",
        r"\b(?:specif\w+|says?|states?|ensure|mention\w*|rule)\b.{0,80}\balways\b",
        r"\A(?!(?:i|it|he|she|they|we|you|this|that|there|my)\b)[\w ]{3,40} (?:are|is|get|gets|go|goes) always (?:\w+ed|in|on|at|to|written|kept|sent|put|shown)\b(?! (?:empty|wrong))",
        lasting=True,
    ),
    cue(
        "rule",
        "never",
        rf"(?:\A|[;:(] *|\.{{2,}} *|\b(?:please|just|so|then) )never (?:ever )?(?:{VERB}|be|do|let|go|touch|rely|mix|bypass|expose|hard-?code|introduce)\b|(?:\A|\bplease )never `",
        r"(?:\A|[;:(] *|\bplease )never (?!mind|again|\w+ed\b|saw|had|knew|went|got|felt|been|thought)[a-z]{3,} (?:the|an?|any|your|my|our|to|in|on|from|more|into)\b",
        rf"(?:, *|\b(?:and|but) )never (?!read\b|set\b|put\b|cut\b|run\b){VERB}\b",
        r"\b(?:must|should|shall|please|may|to|needs to) never\b(?! (?:be enough|be able))",
        rf"\bwe (?:will |should )?never (?!read\b|set\b|put\b){VERB}\b|\bwe never want\b",
        rf"\A(?:for|when|if|in|on|with|before|after)\b.{{3,80}}?,? never {VERB}\b",
        r"\b(?:make|ensure|so|sure) .{0,60}\bnever\b",
        r"\A(?!(?:i|it|he|she|my)\b)[\w ]{3,40}, never (?:to|in|on|at|from|with|the|by|as)\b",
        lasting=True,
        forbids=True,
    ),
    cue(
        "rule",
        "must mustn't",
        r"\A(?!that |it |this |you |they |there |she |he |we |i )[\w`\"'][^,;?]{1,70}? must(?:n't| not| never)? (?!have\b|feel\b|'ve\b|seem\b|'ve"
        r"|be (?:a (?:bug|problem|better|way|nice)|some|the (?:reason|case|problem)|off|wrong|because|due|hard|tough|nice|so |very |really |missing|why|that|great|awesome|amazing))\w",
        r"(?<!\A)(?<!that )(?<!it )(?<!this )(?<!you )(?<!they )(?<!there )(?<!she )(?<!he )(?<!which )(?<!i )(?<!a )\bmust (?:not |never |always |only |also )?"
        r"(?:be (?:\w+ed|able|unique|valid|in|at|on|under|less|complete|idempotent|exact|self|equal|the same|\d)|have (?:an?|the|at|to|only)|(?!be\b|have\b|feel|seem|'ve|admit|say\b|love|know|look\b|think|hold\b|diverge)[a-z]{2,})\b(?! (?:been|felt))",
        r"\b(?:it|this|that|they|you|we) must(?:n't| not| never| always| only| stay| remain| work| be able| keep| run| return| pass| handle| match| fit| use)\b",
        r"\Amust (?:not |never |always |also )?(?:be (?:an?|the|in|at|on|under|less|exactly|unique|valid|able|\w+ed)|use|support|work|run|contain|match|return|include|start|end|fit|handle)\b(?! been)",
    ),
    cue(
        "rule",
        "don't not stop avoid refrain do circumstances means stick treat hands",
        AT
        + r"(?:please )?(?:don't|do not) (?:ever |actually |just )?(?!both|all\b|the\b|these|worry\b|know\b|think\b|understand\b|see\b|get me\b|mind\b|care\b"
        r"|like\b|want\b|need\b|remember\b|believe\b|you\b|we\b|they\b|i\b|forget\b|even\b|really\b|hesitate|recall|wish\b"
        r"|agree|bother|quit|miss|give|feel\b|let (?:it|that|this|any|the)\b|be (?:sorry|afraid|shy|sad|scared|so|too)|sweat|love|seem|actually|have\b|exist)\w",
        r"\A(?!for some reason)(?:for|when|if|in|on|with|during|after|while)\b.{3,80}?(?<!we)(?<!i)(?<!they)(?<!you)(?<!it),? (?:please )?(?:don't|do not) (?!want|need|have|know|see|think|like)\w",
        AT + r"stick to\b|\Atreat .{2,40} as\b",
        AT + r"(?:stop|refrain from) (?:\w+ing\b|the \w|any |all |using)|" + AT + r"avoid (?!that\b|it\b|this\b)\w",
        r"\bhands off\b|\bdon't you (?:ever|dare)\b",
        r"\b(?:do not|don't) ever\b|\bunder no circumstances\b|\bby no means\b",
        r"\b(?:tell|telling|ask|asked|want|need) you (?:to stop|not to)\b|\bi (?:don't|do not) want you to\b",
        AT + r"(?:do|" + VERB + r")\b.{3,80}, not (?:on|in|to|from|via|by)\b",
        r"\b(?:but|and) (?:please )?(?:don't|do not) (?:touch|change|edit|modify|delete|remove|rename|add|use|break|commit|push|create|overwrite|move|write)\b",
        forbids=True,
        imperative=True,
    ),
    cue(
        "rule",
        "shouldn't should cannot can't may allowed permitted forbidden prohibited limits",
        r"\b(?:it|this|that) should (?:not|never) be (?:used|changed|touched|modified|removed|stored|called|edited)\b",
        r"\A(?:those|they|these) should(?:n't| not) (?!have\b|be (?:there|here|hard|happening))\w",
        r"\b(?:we|you) (?:should(?:n't| not)|may not|(?:can't|cannot|can not) ever)\b(?! (?:have (?:been|to|\w+ed|done|gone|made|put|had)\b|be (?:surprised|worried)|need|worry|just assume))",
        r"\A(?!(?:this|that|it|there|these|those|which|i|he|she|they)\b)[\w`\"'(][^,;?]{2,70}? should(?:n't| not) (?!have\b|be (?:there|happening|like|here|too|so|surprised|an issue|a problem)|need\b|matter\b|take long|affect)\w",
        r"\b(?:is|are) (?:strictly |absolutely |currently )?(?:not allowed|not permitted|forbidden|prohibited|off[- ]limits)\b(?! (?:in this context|when the|by the|error))",
        r"\bthat should never\b",
        forbids=True,
    ),
    cue(
        "rule",
        "should shall needs has have consistent may nothing nobody everything everyone all every each only whole entire complete need important essential crucial critical vital must",
        r"\bthere should (?:be no|never be|only be|always be)\b|\bcan only be \w+ed (?:if|when|by|after|once|from|in)\b",
        r"\bshould (?:always|never|only|remain|stay|at all times|not ever|take precedence)\b",
        r"\b(?:should|must|sure)\b.{0,80}\b(?:is|are|be|stays?|remains?) (?:fully |exactly |visually )?consistent (?:with|across)\b",
        r"\b(?:all|every|each|any) (?:(?!(?:it|they|we|you|i|this|that) )[\w'\"`][\w./'\"`-]* ){1,5}(?:should|must|shall|needs? to|ha(?:s|ve) to)\b(?! (?:i|we|you)\b)",
        r"\A(?:nothing|nobody|no one) (?:gets?|goes|leaves|is|may be) (?:\w+ed|merged|in|out|to|into|written|sent)\b",
        r"\A(?:the (?:whole|entire|complete) |everything|it all)[\w ]{0,30} ?(?:has to|have to|needs to|must)\b",
        r"\Aonly [\w ]{2,30} (?:can|may|are allowed to|should be able to)\b",
        r"\b(?:everything|everyone|nothing|nobody|no one)\b(?: but [\w ]{2,30}?| except [\w ]{2,30}?)? (?:should|must|shall|needs? to|ha[sv]e? to|may)\b",
        r"\A(?:all|every|each)\b[^,.]{2,60}\b(?:please|in [\w-]+ format|needs?|requires?|goes|go)\b",
        r"\bi need (?:every|all|each)\b.{2,60}\b(?:under|in|with|below|to be)\b",
        r"\A(?:all |the |your |my |any )?(?:answers?|repl(?:y|ies)|responses?|comments?|error messages?|messages?|documentation|names?|variables?|commits?|titles?|dates|prices|numbers|output) (?:should|must|need to|have to) be\b",
        r"\A(?!(?:i|we|you|they|he|she|it)\b)[\w ]{2,40} (?:have|has|needs?) to (?:be|pass|stay|work|run|fit|match)\b.{0,50}\b(?:before|always|at all times|everywhere)\b",
        r"\bit(?:'s| is) (?:very |really |super )?(?:important|essential|crucial|critical|vital) (?:that|so)\b",
        r"(?<!can )\bonly (?:(?!we |i |you |a |the )[\w'\"`][\w./'\"`,-]* ){1,3}(?:[\w'\"`][\w./'\"`,-]* ){0,10}?(?:should|must|may)\b(?! (?:i|we|you)\b)",
        lasting=True,
    ),
    cue(
        "rule",
        "no nothing without",
        r"(?:\A|[,;:] *|\.{2,} *)(?:absolutely |also |with )?no " + _NOT_RULED_OUT + _NOT_TOLD + r"(?:[\w`./-]+ ?){1,5}(?:, ?please)?[.!]*\Z",
        r"\Anothing (?:hard-?coded|\w+ed)\b|\Ano " + _NOT_RULED_OUT + _NOT_TOLD + r"[\w`/-]+(?: [\w`/-]+){0,3} ?(?:\(|\ballowed\b)",
        r"(?:\A|[,;] *|\band |\bsame )no " + _NOT_TOLD + r"(?:more )?(?:(?:data |business |ui |extra )?logic|code|coding|edits?|commits?|emojis?|comments|tests?|refactor\w*|explanations?|new \w+|extra \w+|changes to|placeholders?|mocks?|hacks?|shortcuts?|fluff)\b",
        r"\b(?:with no|without any) (?:assumptions?|guess\w*|placeholders?|comments?|explanations?|changes?|side effects?|dependenc\w+)\b",
        r"(?:\A|[,;(] *)no more (?!than|problem|error|issue)\w",
        r"\band nothing (?:else|more)\b|\bnothing else[.!]*\Z",
        forbids=True,
    ),
    cue(
        "rule",
        "only",
        r"(?:\A|[,;:(] *|\.{2,} *|\b(?:please|just|so|then|but|and) )only (?:ever |do |" + VERB + r")\b(?! (?:by|to|from)\b)",
        r"\A(?:for|when|if|in|on|with|during)\b.{3,80}?(?<!we)(?<!will)(?<!can)(?<!i)(?<!they) only (?:ever )?" + VERB + r"\b",
        r"\A" + VERB + r"\b.{2,80}? only (?:in|on|for|when|if|to|with|the|those|once)\b",
        r"(?:\A|, ?)" + VERB + r" (?:.{2,60} )?only[.!]*\Z|\A(?:return|export|use|import|show|include|install|change|modify|touch|update|edit|commit|fix) only\b",
        r"\b(?:is|are|applies|apply) only (?:available|allowed|for|to|in|on|when|if)\b|\bonly appl(?:y|ies) to\b|\bi only want\b",
        r"\b(?:we|you) (?:should|must|may) only \w|\byou only (?:need|have) to\b|\b(?:we|you) only ever\b",
        r"\Aonly (?:an? |the )?\w.{1,60}, not\b|\Aonly (?:the ones|those|what)\b|\Aonly (?:after|once|if|when) you\b|\bbut only (?:after|one|if|when|once|for|in|on|the)\b",
    ),
    cue(
        "rule",
        "make be sure ensure careful",
        AT + r"(?:let'?s |always )?(?:make sure|be sure|ensure)\b(?! (?:that )?(?:it|it's|everything|everything's|this|that|things|your \w+|our \w+|they|we|you|the \w+|these|those|all) ?(?:is|are|'s)? ?(?:all |actually |now |still )?(?:correct|working|works?|fine|running|connecting|integrated|built|ok|okay|properly|good|clear)\b)"
        r"(?! (?:to get rid|we get rid|you (?:update|find|keep going|don't quit)|there's lots))",
        AT + r"(?:make sure|be sure|ensure) (?:to (?!get rid)\w+|it (?:still|continues|keeps|stays)|(?:you|we) (?:use|keep|run|always|put|install)|(?:any|all) new)\b",
        r"(?:\A|[,;:(] *|\.{2,} *|\b(?:and|but|just|please|also|then|to|so|let's|lets) )(?:make sure|be sure|ensure)\b.{0,80}"
        r"\b(?:never|always|don't|do not|doesn't|does not|not to|only|every|each|stays?|remains?|keep|dry|nothing|without|concise)\b",
        AT + r"be (?:very |extra |really |more )?careful (?:not to|with|about)\b",
        imperative=True,
    ),
    cue(
        "rule",
        "keep leave preserve retain maintain remain remains stay stays unchanged untouched",
        AT + r"(?:please |always )?keep (?!up\b|on\b|at\b|me\b|in\b|it up|track|an eye|this up|that up|that in|this in|it in|you |\w+ up\b"
        r"|your (?:head|chin)|(?!existing|remaining|following|pending|naming|spacing|logging|caching|padding|setting|testing|string|styling|heading)\w+in[g']\b)\w",
        AT + r"(?:please )?leave (?!it\b(?! as)|me\b|for\b|now|a\b|you\b|room\b)(?:\w.{0,80}\b(?:as[- ]is|as (?:it|they) (?:is|are)|alone|untouched|unchanged|in place|intact)\b|(?:the|all|my|any|our) \w)",
        AT + r"(?:preserve|retain|maintain (?:the|all|any|existing|current)) \w",
        r"\b(?:remains?|stays?|keeps?|left|leave) (?:unchanged|as[- ]is|the same|untouched|intact)\b",
        imperative=True,
    ),
    cue(
        "rule",
        "now henceforth forward future time whenever default times onwards",
        r"\b(?:from (?:now|here|this point|today) on(?:wards?)?|henceforth|going forward)\b",
        r"\b(?:in (?:the )?future|for (?:all )?future \w+)\b(?!,? (?:i'd|i would|we could|we might|we may|we'll|we will|it|perhaps|i'll))(?=.{0,80}\b(?:use|please|don't|should|always|never|make sure|keep|ask|put|write|run|check)\b)",
        r"\bwe (?:basically |always )?want .{3,60}\bevery time\b",
        r"(?<!almost )\b(?:every|each) time you\b(?!.*\byou (?:end up|keep|always|forget)\b)|\bwhenever you (?!need|want|like|feel|can|get|have|are ready)|\bat all times\b"
        r"|\bfor the rest of (?:this|the|our) (?:session|project|conversation|chat|work)\b",
        r"(?<!will )\bby default,? (?:use|do|always|write|show|run)\b|" + AT + r"(?:use|run|write)\b.{1,40}\bby default\b",
        anywhere=True,
        lasting=True,
    ),
    cue(
        "rule",
        "before first until unless without need avoid avoiding when whenever if periodically regularly continuously",
        r"\Aif any\b.{3,80}, (?:please )?" + VERB + r"\b|\A(?:periodically|regularly|continuously),? " + VERB + r"\b",
        r"\A(?:when(?:ever)?|if) (?:you|in doubt|unsure|something)\b.{0,50}, (?:ask|check|stop|tell|don't|use|prefer|please|always|never|just ask)\b",
        r"\b(?:ask|check with|discuss with|confirm with|consult|tell|show|talk to|run (?:it|this|that|them|things) by) (?:me|us)\b.{0,60}\b(?:before|first)\b",
        r"\bget (?:my |a |an )?(?:confirmation|approval|permission|ok|okay)\b",
        r"(?:\A" + VERB + r"|\bplease|\byou (?:should|must)|\balways)\b.{0,80}\bbefore (?:you )?(?:writ|chang|commit|push|implement|touch|merg|delet|mak|do)\w* (?:any|anything|code|the code|changes)\b",
        r"(?:\A" + VERB + r"|\bplease)\b.{0,80}\bbefore (?:you )?(?:answer|respond|reply|proceed|continu|start)\w*[.!]*\Z",
        r"\Abefore (?:you|any|taking|making|doing|marking|starting|writing|changing)\b.{0,60}, (?:please )?(?:" + VERB + r"|do)\b",
        r"\bi(?:'d)? need you to (?:first|be|confirm|always|never|verify|stay|stop)\b|\b(?:try (?:your best )?to avoid|avoiding using)\b",
        r"\A(?:always )?before (?:you )?(?:commit|push|merg|deploy|releas|delet|finish|chang|edit|start)\w*\b.{0,60},",
        AT + r"(?:do|make|change|push|commit|delete|merge|start|proceed|write|stop).{0,40}\b(?:unless|until) (?:i|you|we)\b",
        AT + VERB + r"\b.{1,100}\bwithout (?:asking|my (?:ok|okay|approval|permission|consent)|touching|changing|breaking|modifying|using|adding|relying)\b",
    ),
    cue(
        "rule",
        "most least max maximum minimum limit budget deadline exceed more",
        r"(?:\A" + VERB + r"|\b(?:should|must|want|needs?|requires?))\b.{0,70}"
        r"\b(?:at most|no more than|at least|not more than|no longer than|fewer than|maximum of|minimum of) (?:\d|one (?!of)|two|three|four|five|ten|a )",
        r"\A(?:at most|no more than|not more than) (?:one|two|three|four|five|ten)\b",
        r"\A(?:at most|no more than|at least|not more than|no longer than|maximum|max\.?) (?:of )?\d|\blimit (?:it|this|them|yourself) to \d",
        r"\b\d+(?:-\d+)? (?:lines?|words?|characters?|sentences?|pages?|bullets?|minutes?|files?|paragraphs?|rows?) (?:max|maximum|at most|or (?:less|fewer))\b",
        r"\b(?:my|our|the|total|hard) (?:budget|deadline|quota)\b.{0,30}\b(?:is|are|of|:) ",
        r"\bmust(?:n't| not) exceed\b|\bshould never exceed\b",
    ),
    cue(
        "rule",
        "answer reply respond speak talk write explain use do be concise brief terse make keep follow all every each any",
        AT + r"(?:answer|reply|respond|speak|talk|communicate)(?: to me| me)?(?: only| always)? (?:in|with|using|like|as)\b",
        AT + r"be (?:concise|brief|terse|precise|short|honest|direct|consistent)\b",
        r"\b(?:make|keep) (?:it|them|that|this|your (?:answers?|replies|responses)|answers?|replies|responses) (?:very |as )?(?:concise|brief|short|simple|terse|minimal)\b",
        AT + r"(?:write|format|name|prefix|store|document|validate|wrap|sign) (?:all|every|each|any)\b",
        AT + r"(?:use|write|do|follow)\b.{1,50}\b(?:for (?:all|every|any|each|new)\b|in (?:the imperative|all|every|any|each|new)\b|everywhere|throughout|across (?:the|all|every))",
        AT + r"(?:use\b.{1,40}\bfor \w+ing\b|do (?:all |your |any )+\w+ing (?:with|in)\b)",
        AT + r"use (?:metric|imperial|tabs|spaces|british|american|the metric|conventional)\b",
        AT + r"follow\b.{1,60}\b(?:strictly|exactly|closely|to the letter)\b",
        AT + r"follow (?:the |our |my )?(?:existing |same |general |usual )?(?:[\w-]+ ){0,2}(?:conventions?|style|pattern|guidelines?|standards?|rules|camelcase|snake_case|naming)\b",
    ),
    cue(
        "rule",
        "rule policy convention constraint important required mandatory evict rules conventions constraints must nothing",
        r"\A(?:the |a |our |new |hard )?(?:rules?|policy|conventions?|constraints?|important)(?: \d+)? ?[:–—-] (?!https?:)",
        r"\b(?:is|are) (?:mandatory|not optional|a must)\b",
        r"\bdo_not_evict\b|\bas a rule,",
        r"\b(?:our|the|my|house) (?:rule|policy|convention) (?:is|says)\b|\b(?:strict|firm|clear|hard) [\w-]+ (?:policy|rule)\b",
        lasting=True,
    ),
    cue(
        "rule",
        "may can longer fine ok okay allowed ignore forget drop lift cancel scrap",
        r"\byou (?:may|can)(?: now| again)* (?:push|commit|use|change|touch|delete|edit|merge|write|add|modify|install|run)\b.{0,60}\b(?:now|again|from now on|after all|without asking)\b",
        r"\b(?:it's|it is|that's) (?:fine|ok|okay|allowed) to\b",
        r"\byou no longer (?:have|need) to\b|\byou (?:don't|do not) (?:have|need) to\b.{1,60}\b(?:anymore|any more|from now on|again)\b",
        r"\b(?:ignore|forget|drop|lift|cancel|scrap) (?:the|that|my|our) (?:rule|constraint|restriction|policy)\b",
    ),
)

PREFERENCE: Final = (
    cue(
        "preference",
        "prefer preferred preference over person",
        r"\bi (?:tend|would|generally|usually) (?:to )?prefer\b|\b[\w-]+ over [\w-]+ for me\b|\bi'm (?:more )?of an? \w+ person\b",
        r"\b(?:i|we)(?:'d| would)? (?:strongly |really |much |generally |usually |personally |always |still |would )*prefer\b",
        r"\bmy (?:personal |own |strong )?(?:preference|preferred)\b",
        r"\A(?:strongly )?prefer\b|\b(?:is|are) (?:my |our )preferred\b|\bour preference\b",
        r"\bpreferred (?:pattern|approach|way|format|style)\b",
        lasting=True,
    ),
    cue(
        "preference",
        "rather",
        r"\b(?:i|we)(?:'d| would) (?:much |far )?rather\b",
    ),
    cue(
        "preference",
        "like liek hate dislike love fan annoys bugs bothers irritates drives comfortable into keen fond detest stand taste style more",
        r"\bi (?:really |generally |usually |personally |always )?(?:like|love|hate|dislike|don't like|do not like|can't stand) "
        r"(?:it (?:better |more )?when|when) (?:you|the|code|errors|logs|tests|commits|functions|files|answers|replies|things)\b",
        r"\bi (?:really |generally |usually |personally |always )?(?:like|hate|dislike) (?:short|concise|detailed|long|terse|explanations|examples|diagrams|tables|bullet|comments|tests|code|my (?:code|answers|commits|replies|tests)|your (?:answers|replies))\b",
        r"(?:\A|(?<!if )(?<!case )\bi )(?:don't|do not|didn't) (?:really )?(?:like|liek) (?!that[.! ]*\Z|this[.! ]*\Z|it[.! ]*\Z|that at all|to\b|him|her|them[.! ]*\Z)\w",
        r"\bi(?:'m| am) (?:a |not a |really a |not really a )?(?:big |huge )?fan of (?!you|his|her)|\Anot a (?:big |huge )?fan of",
        r"\bi'm more comfortable with\b|\b(?:it|that) (?:annoys|bugs|bothers|irritates) me\b|\bdrives me (?:crazy|nuts|mad)\b",
        r"\bi'm not (?:really |that |so )?(?:into|keen on|fond of)\b|\bi (?:really |do |strongly )?(?:dislike|detest|can't stand) (?!you|him|her)\w",
        r"\bi(?:'d| would) love it if you\b|\bmy (?:taste|style) is\b|\bi'm more of an?\b",
    ),
    cue(
        "preference",
        "call address",
        r"(?<!you )(?<!they )(?<!people )(?<!friends )\b(?:call|address) me (?!when|if|back|later|tomorrow|at\b|on\b|crazy|every|today|tonight|and\b|to\b|out\b|an?\b|for\b|after|in\b|up\b|sometime|from|old)\w",
        lasting=True,
    ),
    cue(
        "preference",
        "want like expect",
        r"\bi(?:'d)? (?:want|like|expect) you to (?:be|answer|respond|reply|speak|explain things|write in|always|never)\b",
        r"\bi(?:'d)? (?:want|like|expect) (?:short|concise|brief|long|detailed|your) (?:answers|replies|responses|explanations)\b",
        lasting=True,
    ),
)
