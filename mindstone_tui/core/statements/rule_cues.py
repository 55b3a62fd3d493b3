"""How people say what must always, must never and must only be done."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.statements.cue import VERB, cue

_NOT_RULED_OUT: Final = (
    r"(?!one\b|need\b|prob|worr|idea|thanks?\b|thank|doubt|luck|way\b|chang|improv|effect"
    r"|differ|success|sign|matter|longer|that|this|it|i\b|you|we\b|they|there|the\b|but|not"
    r"|don't|undo|revert|remove|delete|fix\b|change\b|make\b|put\b|add\b|rush|pressure|clue"
    r"|wonder|biggie|big|thx|bueno|joke|issue|sound"
    r"|data\b(?! logic)|files?\b(?! in)|response|answer|reason|error|result|output|such"
    r"|on\b|more than|kidding|pain|man\b|dude|first|just|use|let|plan|go\b|kids?\b|place"
    r"|sorry|wait|content|text|hurry|offen[cs]e|surprise|comment\b|for\b|plot|warning|log"
    r"|connection|module|figure|display|image|judg|regret|shame|drama|guarantee|surprise)"
)
"""What "no" says of the world, and not of what is allowed."""
_NOT_TOLD: Final = (
    r"(?!.*\b(?:was|were|is|are|been|returned|shown|detected|available|found|provided|given"
    r"|yet[.!]*\Z|left|at all"
    r"|exists?|appears?|came)\b)"
)
"""The same, told by what follows."""
_NOT_SAID_OF_WORK: Final = (
    r"(?!\w+ed\b|been\b|was\b|were\b|had\b|is\b|has\b|did\b|be there|there\b|here\b|up\b"
    r"|a\b|the\b|so\b|love|thought|felt|knew|ready|happy|good|great|fun|nice|calm|know"
    r"|happen|seem)"
)
"""What follows "always" when it praises or tells."""
_PLAINLY: Final = r"(?!.*\b(?:never|don't|do not|must|only|always)\b)"
"""A permission with no order behind it."""

_ONCE: Final = (
    r"(?!.{0,90}\b(?:works?|working|wokrs|runs?|running|exists?|correct(?:ly)?|proper(?:ly)?"
    r"|present"
    r"|fixed|done|deployed|committed|pushed|installed|updated|saved|adjusted|handled|covered"
    r"|errors?|bugs?|permission|up to date|populated"
    r"|get to the bottom|in sync|dark"
    r"|bigger|smaller|visible|nice|good|clean|loads?|loading|displayed|shows? up|appears?)\b)"
)
"""What is to be seen to now, and is over once it is so: nothing that has to hold from then on."""
_BINDS: Final = (
    r"(?=.*\b(?:never|always|don't|do not|doesn't|only|every|each|any|all|no|not|nothing|without"
    r"|stays?|remains?|keep|still|consistent|before|after|by default|whenever)\b)"
)

RULE: Final = (
    cue(
        "rule",
        "HTTP only through the client in src/api; no axios outside that file.",
        "it must no only",
        start=(
            r"(?!(?:it|this|that|i|we|they|he|she|there|you|if|when|the (?:error|issue|problem))\b)"
            r"[^,;?!]{2,60} only (?:via|through|from|imports?|uses?|calls?|composes?|drives?)\b",
        ),
        within=(
            r"(?:\A|[,;:—–-] *)no [\w`\"'/.-]+(?: [\w`\"'/.-]+){0,3} (?:in|outside|inside) "
            r"(?:the |this |that |any )?(?:files?|screens?|components?|modules?|tasks?|tests?|code"
            r"|styles?)\b",
            r"\bshould be \w+ed only (?:for|if|when|by|in|from|after|once)\b",
            r"\bno [\w`/-]+(?: [\w`/-]+){0,2},? (?:just"
            r"|only) (?:the )?[\w`/-]+(?: [\w`/-]+)?[.!]*\Z",
            r"\bonly (?:this|that|the|these|one) [\w`./-]+ (?:imports?|uses?|calls?|knows?|may"
            r"|writes?"
            r"|reads?|touches)\b",
            r"\A(?!(?:it|this|that|i|we|they|he|she|there|you|if"
            r"|when)\b)[\w`/.-]+(?: [\w`/.-]+){0,3}"
            r" (?:calls?|uses?|imports?|reads?|writes?|returns?|shows?|takes?) only\b",
            r"\A[\w-]+-only[;:.,]",
            r"\b(?:but|and) it must be an? (?!bug|problem|mistake|issue|better|way|nice|good)\w",
        ),
    ),
    cue(
        "rule",
        "It's fine to push to main again.",
        "allowed can cancel drop fine forget ignore lift may ok okay scrap",
        within=(
            rf"\byou may (?:now|again) {VERB}\b{_PLAINLY}",
            r"\byou (?:may|can) (?:push|commit|use|change|touch|delete"
            r"|edit|merge|write|add|modify|install|run)\b.{0,60}\b(?:now|again"
            rf"|from now on|after all|without asking)\b{_PLAINLY}",
            rf"\byou(?:'re| are) (?:now |again )?allowed to\b{_PLAINLY}",
            rf"\b(?:is|are) (?:now )?(?:allowed|permitted|fine|ok|okay) again\b{_PLAINLY}",
            rf"\b(?:it's|it is|that's) (?:now )?(?:fine|ok|okay|allowed) to\b{_PLAINLY}",
            r"\b(?:ignore|forget|drop|lift|cancel|scrap) (?:the|that|my|our) (?:rule"
            r"|constraint|restriction|policy)\b",
        ),
        permits=True,
    ),
    cue(
        "rule",
        "You no longer have to run the tests before every commit.",
        "longer don't not",
        within=(
            r"\byou no longer (?:have|need) to\b",
            r"\byou (?:don't|do not) (?:have|need) to\b.{1,60}\b(?:anymore|any more"
            r"|from now on|again)\b",
        ),
        forbids=True,
        permits=True,
    ),
    cue(
        "rule",
        "Always run the linter.",
        "always",
        start=(
            r"(?:for|when|if|in|on|with|before|after)\b.{3,80}?,? (?:you )?always " + VERB + r"\b",
            VERB + r" always\b",
            r"(?!(?:i|it|he|she|they|we|you|this|that|there|my)\b)[\w ]{3,40} (?:are|is"
            r"|get|gets|go|goes) always (?:\w+ed|in|on|at|to|written|kept|sent|put"
            r"|shown)\b(?! (?:empty|wrong))",
        ),
        within=(
            r"(?:\A|[;:(] *|\.{2,} *|\b(?:please|just|so|then) )always (?:"
            + VERB
            + r"|be|do|have|let|go)\b",
            r"\Aalways " + _NOT_SAID_OF_WORK + r"\w+ .{3,80}\b(?:when|whenever|if|before|after)\b",
            r"(?:, *|\b(?:and|but) )always " + VERB + r"\b",
            r"\b(?:must|should|shall|please|needs? to|has to|have to|ought to"
            r"|you to) (?:just )?always " + _NOT_SAID_OF_WORK + r"\w",
            r"\bshould just always\b",
            r"\b(?:we|you) (?:want to )?always " + VERB + r"\b",
            r"\bwe (?:will |should )?always (?:want|need)\b",
            r"\bwe(?:'ll| will) always (?!be\b|have\b|love|remember)\w",
            r"\b(?:make|ensure|so|sure) .{0,60}\b(?:is|are|it|they|we|you) always\b",
            r"(?:\b(?:should|must|use|be)|\A" + VERB + r")\b.{3,60}, always[.!]*\Z",
            r"\b(?:specif\w+|says?|states?|ensure|mention\w*|rule)\b.{0,80}\balways\b",
        ),
        lasting=True,
    ),
    cue(
        "rule",
        "Never push to main.",
        "never",
        start=(
            r"(?:for|when|if|in|on|with|before|after)\b.{3,80}?,? never " + VERB + r"\b",
            r"(?!(?:i|it|he|she|my)\b)[\w ]{3,40}, never (?:to|in|on|at|from|with|the|by"
            r"|as)\b",
        ),
        within=(
            r"(?:\A|[;:(] *|\.{2,} *|\b(?:please|just|so|then) )never (?:ever )?(?:"
            + VERB
            + r"|be|do|let|go|touch|rely|mix|bypass|expose|hard-?code|introduce)\b",
            r"(?:\A|\bplease )never `",
            r"(?:\A|[;:(] *|\bplease )never (?!mind|again|\w+ed\b|saw|had|knew|went|got"
            r"|felt|been|thought)[a-z]{3,} (?:the|an?|any|your|my|our|to|in|on|from|more"
            r"|into)\b",
            r"(?:, *|\b(?:and|but) )never (?!read\b|set\b|put\b|cut\b|run\b)" + VERB + r"\b",
            r"\b(?:must|should|shall|please|may|to|needs to) never\b(?! (?:be enough"
            r"|be able))",
            r"\bwe (?:will |should )?never (?!read\b|set\b|put\b)" + VERB + r"\b",
            r"(?<!if )\b(?:we|i)(?: basically| really)? never want\b",
            r"(?:\A|[,;:(] *)never (?:an?|more than) \w",
            r", (?:and )?never [`\"']?[\w.-]*\d",
            r"\b(?:make|ensure|so|sure) .{0,60}\bnever\b",
        ),
        lasting=True,
        forbids=True,
    ),
    cue(
        "rule",
        "Comments must be complete sentences.",
        "must mustn't",
        start=(
            r"(?!that |it |this |you |they |there |she |he |we "
            r"|i )[\w`\"'][^,;?]{1,70}? must(?:n't| not| never)? (?!have\b|feel\b|'ve\b"
            r"|seem\b|'ve|be (?:a (?:bug|problem|better|way|nice)|some|the (?:reason|case"
            r"|problem)|off|wrong|because|due|hard|tough|nice|so |very |really |missing"
            r"|why|that|great|awesome|amazing))\w",
            r"must (?:not |never |always |also )?(?:be (?:an?|the|in|at|on|under|less"
            r"|exactly|unique|valid|able|\w+ed)|use|support|work|run|contain|match|return"
            r"|include|start|end|fit|handle)\b(?! been)",
        ),
        within=(
            r"(?<!\A)(?<!that )(?<!it )(?<!this )(?<!you )(?<!they )(?<!there )(?<!she "
            r")(?<!he )(?<!which )(?<!i )(?<!a )\bmust (?:not |never |always |only "
            r"|also )?(?:be (?:\w+ed|able|unique|valid|in|at|on|under|less|complete"
            r"|idempotent|exact(?:ly)?|self|equal|the same|\d)|have (?:an?|the|at|to|only)"
            r"|(?!be\b|have\b|feel|seem|'ve|admit|say\b|love|know|look\b|think|hold\b"
            r"|diverge)[a-z]{2,})\b(?! (?:been|felt))",
            r"\b(?:it|this|that|they|you|we) must(?:n't| not| never| always| only| stay"
            r"| remain| work| be able| keep| run| return| pass| handle| match| fit| use)\b",
        ),
    ),
    cue(
        "rule",
        "Don't touch the migrations folder.",
        "avoid circumstances do don't hands means not refrain stay stick stop treat",
        start=(
            r"(?!for some reason)(?:for|when|if|in|on|with|during|after"
            r"|while)\b.{3,80}?(?<!we)(?<!i)(?<!they)(?<!you)(?<!it),? (?:please "
            r")?(?:don't|do not) (?!want|need|have|know|see|think|like)\w",
            r"treat .{2,40} as\b",
        ),
        clause=(
            r"(?:please )?(?:don't|do not) (?:ever |actually |just )?(?!both|all\b|the\b"
            r"|these|worry\b|know\b|think\b|understand\b|see\b|get me\b|mind\b|care\b"
            r"|like\b|want\b|need\b|remember\b|believe\b|you\b|we\b|they\b|i\b|forget\b"
            r"|even\b|really\b|hesitate|recall|wish\b|agree|bother|quit|miss|give|feel\b"
            r"|let (?:it|that|this|any|the)\b|be (?:sorry|afraid|shy|sad|scared|so|too)"
            r"|sweat|love|seem|actually|have\b|exist)\w",
            r"(?:stick to|stay (?:on|within|in|inside))\b",
            r"avoid (?!that\b|it\b|this\b)\w",
            r"(?:do|" + VERB + r")\b.{3,80}, not (?:on|in|to|from|via|by)\b",
        ),
        within=(
            r"(?<!\bi )(?<!we )(?<!you )(?<!they )(?<!that )(?<!which )(?<!who )(?<!it )(?<!s )"
            r"(?<!to )"
            r"\bdon't (?:add|assume|break|call|change|commit|copy|create|delete|deploy|duplicate"
            r"|edit"
            r"|force|generate|hardcode|hide|implement|import|include|install|introduce|invent|make"
            r"|merge|mess|mix|mock|modify|move|overwrite|push|put|refactor|rely|remove|rename"
            r"|replace"
            r"|rewrite|send|skip|suggest|touch|use|waste|write) (?!the same|sense"
            r"|it\b.{0,20}\bany)\w",
            r"\bhands off\b",
            r"\bdon't you (?:ever|dare)\b",
            r"\b(?:do not|don't) ever\b",
            r"\bunder no circumstances\b",
            r"\bby no means\b",
            r"\b(?:tell|telling|ask|asked|want|need) you (?:to stop|not to)\b",
            r"\bi (?:don't|do not) want you to\b",
            r"\b(?:don't|do not) want\b.{2,80}\bever again\b",
            r"\b(?:i|we)(?: want|'d like| would like) to avoid \w",
        ),
        forbids=True,
        imperative=True,
    ),
    cue(
        "rule",
        "Stop adding emojis to commit messages.",
        "refrain stop",
        clause=(r"(?:please )?(?:stop|refrain from) (?:\w+ing\b|the \w|any |all |using)",),
        lasting=True,
        forbids=True,
        imperative=True,
    ),
    cue(
        "rule",
        "We shouldn't use global state in the parser.",
        "allowed can't cannot forbidden limits may permitted prohibited should shouldn't",
        start=(
            r"(?:those|they|these) should(?:n't| not) (?!have\b|be (?:there|here|hard"
            r"|happening))\w",
        ),
        within=(
            r"\b(?:it|this|that) should (?:not|never) be (?:used|changed|touched|modified"
            r"|removed|stored|called|edited)\b",
            r"\b(?:we|you) (?:should(?:n't| not)|may not|(?:can't|cannot"
            r"|can not) ever)\b(?! (?:have (?:been|to|\w+ed|done|gone|made|put|had)\b"
            r"|be (?:surprised|worried)|need|worry|just assume))",
            r"\b(?:is|are) (?:strictly |absolutely |currently )?(?:not allowed"
            r"|not permitted|forbidden|prohibited|off[- ]limits)\b(?! (?:in this context"
            r"|when the|by the|error))",
            r"\bthat should never\b",
            r"(?<!\bit )(?<!\bthis )(?<!\bthat )(?<!there )(?<!\bi )(?<!\bhe )(?<!she )(?<!which )"
            r"\bshould(?:n't| not) (?!have (?:been|to|had|done|gone|made|put|taken|\w+ed)\b|be"
            r" (?:there|here|hard|happening|like|an issue"
            r"|a problem|too|so|surprised)|need\b|matter|take long|affect|cause|be an?other"
            r"|there\b)\w",
        ),
        forbids=True,
    ),
    cue(
        "rule",
        "Every public function should have a docstring.",
        "all always any be before complete consistent critical crucial each ensure entire "
        "essential every everyone everything important must nobody nothing only shall should "
        "sure vital whole",
        start=(
            r"(?:all|every|each) \w+, [^.]{2,50}\bshould (?:be|have|use)\b",
            r"(?:nothing|nobody|no one) (?:gets?|goes|leaves|is|may be) (?:\w+ed|merged"
            r"|in|out|to|into|written|sent)\b",
            r"(?:the (?:whole|entire|complete) |everything|it all)[\w ]{0,30} ?(?:has to"
            r"|have to|needs to|must)\b",
            r"only [\w ]{2,30} (?:can|may|are allowed to|should be able to)\b",
            r"(?:all|every|each)\b[^,.]{2,60}\b(?:please|in [\w-]+ format|needs?"
            r"|requires?|goes|go)\b",
            r"(?:all |the |your |my |any )?(?:answers?|repl(?:y|ies)|responses?|comments?"
            r"|error messages?|messages?|documentation|names?|variables?|commits?|titles?"
            r"|dates|prices|numbers|output) (?:should|must|need to|have to) be\b",
            r"(?!(?:i|we|you|they|he|she|it)\b)[\w ]{2,40} (?:have|has|needs?) to (?:be"
            r"|pass|stay|work|run|fit|match)\b.{0,50}\b(?:before|always|at all times"
            r"|everywhere)\b",
        ),
        within=(
            r"\bneeds? to be (?:very |really )?(?:minimal|fast|simple|responsive|consistent|secure"
            r"|hosted|free|optimi[sz]ed|accessible|small|compatible|robust)\b",
            r"\bonly [\w ]{2,20} (?:can|may)[.!]*\Z",
            r"\bi (?:want|would like|'d like) to (?:make sure|ensure)\b(?! (?:that )?i\b)",
            r"\bwe (?:just |only |also )?need to (?:make sure|ensure)\b",
            r"\bwant\b.{2,40}\bto always\b",
            r"\bthere should (?:be no|never be|only be|always be)\b",
            r"\bcan only be \w+ed (?:if|when|by|after|once|from|in)\b",
            r"\bshould (?:always|never|only|remain|stay|at all times|not ever"
            r"|take precedence)\b",
            r"\b(?:should|must|sure)\b.{0,80}\b(?:is|are|be|stays?|remains?) (?:fully "
            r"|exactly |visually )?consistent (?:with|across)\b",
            r"\b(?:all|every|each|any) (?:(?!(?:it|they|we|you|i|this"
            r"|that) )[\w'\"`][\w./'\"`-]* ){1,5}(?:should|must|shall|needs? to|ha(?:s"
            r"|ve) to)\b(?! (?:i|we|you)\b)",
            r"\b(?:everything|everyone|nothing|nobody|no one)\b(?: but [\w ]{2,30}?"
            r"| except [\w ]{2,30}?)? (?:should|must|shall|needs? to|ha[sv]e? to|may)\b",
            r"\A(?!(?:i|we|you|what|which|why|how|if|should)\b)[\w`'\" -]{2,40} should (?:also "
            r"|then )?"
            r"(?:follow|rely on|go through|respect|comply with|adhere to|conform to)\b",
            r"\bi need (?:every|all|each)\b.{2,60}\b(?:under|in|with|below|to be)\b",
            r"\bit(?:'s| is) (?:very |really |super )?(?:important|essential|crucial"
            r"|critical|vital) (?:that|so)\b",
            r"(?<!can )\bonly (?:(?!we |i |you |a "
            r"|the )[\w'\"`][\w./'\"`,-]* ){1,3}(?:[\w'\"`][\w./'\"`,-]* "
            r"){0,10}?(?:should|must|may)\b(?! (?:i|we|you)\b)",
        ),
        lasting=True,
    ),
    cue(
        "rule",
        "No semicolons.",
        "no nothing without",
        start=(
            r"nothing (?!added)(?:hard-?coded|\w+ed)\b",
            r"no [\w ]{2,40} other than\b",
            r"no " + _NOT_RULED_OUT + _NOT_TOLD + r"[\w`/-]+(?: [\w`/-]+){0,3} ?(?:\(|\ballowed\b)",
        ),
        within=(
            r"(?:\A|[,;:] *|\.{2,} *)(?:absolutely |also |with )?no "
            + _NOT_RULED_OUT
            + _NOT_TOLD
            + r"(?:[\w`./-]+ ?){1,5}(?:, ?please)?[.!]*\Z",
            r"(?:\A|[,;] *|\band |\bsame )no "
            + _NOT_TOLD
            + r"(?:more )?(?:(?:data |business |ui |extra )?logic|code|coding|edits?"
            r"|commits?|emojis?|comments|tests?|refactor\w*|explanations?|new \w+"
            r"|extra \w+|changes to|placeholders?|mocks?|hacks?|shortcuts?|fluff)\b",
            r"\b(?:with no|without any) (?:assumptions?|guess\w*|placeholders?|comments?"
            r"|explanations?|changes?|side effects?|dependenc\w+)\b",
            r"(?:\A|[,;:] *)no "
            + _NOT_RULED_OUT
            + _NOT_TOLD
            + r"(?!.{0,40}\b(?:needed|necessary|required)\b)(?:[\w`./+-]+ ){1,4}"
            r"(?:(?:in|outside|inside|for) (?:the |that |this |any )?[\w`./-]+|(?=[–—-] ))",
            r"(?:\A|[,;(] *)no more (?!than|problem|error|issue)\w",
            r"\band nothing (?:else|more)\b",
            r"(?:\A|[,;:] *)no (?!\w*thing)\w+ing (?:back|to|of|in|on|the|any)\b",
            r"\bnothing else[.!]*\Z",
        ),
        forbids=True,
    ),
    cue(
        "rule",
        "Only touch files under src/.",
        "only",
        start=(
            r"(?:for|when|if|in|on|with"
            r"|during)\b.{3,80}?(?<!we)(?<!will)(?<!can)(?<!i)(?<!they) only (?:ever )?"
            + VERB
            + r"\b",
            VERB + r"\b.{2,80}? only (?:in|on|for|when|if|to|with|the|those|once)\b",
            r"(?:return|export|use|import|show|include|install|change|modify|touch|update"
            r"|edit|commit|fix) only\b",
            r"only (?:an? |the )?\w.{1,60}, not\b",
            r"only (?:the ones|those|what)\b",
            r"(?:only|just) (?:that|this|these|the) (?:one )?(?:changes?|files?|parts?"
            r"|pages?)[.!]*\Z",
            r"only (?:after|once|if|when) you\b",
        ),
        within=(
            r"(?:\A|[,;:(] *|\.{2,} *|\b(?:please|just|so|then|but|and) )only (?:ever "
            r"|do |go ahead|come back|look|" + VERB + r")\b(?! (?:by|to|from)\b)",
            r"(?:\A|, ?)(?:do|" + VERB + r") (?:.{2,60} )?only[.!]*\Z",
            r"\bonly (?:where|when|if) (?:necessary|needed|required)\b",
            r"(?:\A|, |\band )(?:suggest|" + VERB + r") only (?:\d|one|two|three|the|those"
            r"|minimal|what)\b",
            r"\b(?:is|are|applies|apply) only (?:available|allowed|for|to|in|on|when|if)\b",
            r"\bonly appl(?:y|ies) to\b",
            r"\A(?:[a-z]{3,12}: )?(?:(?!(?:is|are|was|were|has|have|had|shows?|works?|i|i'm|we|it"
            r"|it's|you|they|he|she|can|does|not|read|the)\b)[\w`+/&@.'-]+,? ){1,5}only"
            r"(?=[.!;]*\Z|; | [–—-] )",
            r"(?:\A|[;:–—-] +)only (?:one|a single|two) [\w`.-]+[.!]*\Z",
            r"\bi only want\b",
            r"\b(?:we|you) (?:should|must|may) only \w",
            r"\byou only (?:need|have) to\b",
            r"\b(?:we|you) only ever\b",
            r"\bbut only (?:after|one|if|when|once|for|in|on"
            r"|the(?! \w+ (?:works?|gets?|shows?|has|is|are|starts?)\b))\b",
        ),
    ),
    cue(
        "rule",
        "Make sure the cache never grows past its limit.",
        "be careful ensure make sure",
        clause=(
            r"(?:let'?s |always )?(?:make sure|be sure|ensure)\b(?:"
            + _BINDS
            + "|"
            + _ONCE
            + r")(?! "
            r"(?:that )?(?:it|it's"
            r"|everything|everything's|this|that|things|your \w+|our \w+|they|we|you"
            r"|the \w+|these|those|all) ?(?:is|are|'s)? ?(?:all |actually |now "
            r"|still )?(?:correct|working|works?|fine|running|connecting|integrated|built"
            r"|ok|okay|properly|good|clear)\b)(?! (?:to get rid|we get rid|you \w+ (?:it|them"
            r"|this|that)[.!]*\Z|you (?:update"
            r"|find|keep going|don't quit)|there's lots))",
            r"(?:make sure|be sure|ensure) (?:to (?!get rid|correctly|properly|account)\w+"
            r"|it (?:still|continues"
            r"|keeps|stays)|(?:you|we) (?:use|keep|run|always|put|install)|(?:any"
            r"|all) new)\b",
            r"be (?:very |extra |really |more )?careful (?:not to|with|about)\b",
        ),
        within=(
            r"\bmake sure (?:that )?(?:no \w|nothing|it'?s not|it doesn't|to not|not to"
            r"|there'?s no)",
            r"(?:\A|[,;:(] *|\.{2,} *|\b(?:and|but|just|please|also|then|to|so|let's"
            r"|lets) )(?:make sure|be sure|ensure)\b.{0,80}\b(?:never|always|don't|do not"
            r"|doesn't|does not|not to|only|every|each|stays?|remains?|keep|dry|nothing"
            r"|without|concise)\b",
        ),
        imperative=True,
    ),
    cue(
        "rule",
        "Keep the old endpoint as it is.",
        "keep keeping leave maintain maintaining preserve preserving retaining remain remains "
        "retain stay stays unchanged untouched",
        clause=(
            r"(?:please |always )?keep (?!up\b|on\b|at\b|me\b|in\b|it up|track|an eye"
            r"|this up|that up|that in|this in|it in|you |\w+ up\b|your (?:head|chin)"
            r"|(?!existing|remaining|following|pending|naming|spacing|logging|caching"
            r"|padding|setting|testing|string|styling|heading)\w+in[g']\b)[\"'`]?\w",
            r"(?:please )?leave (?!it\b(?! as)|me\b|for\b|now|a\b|you\b"
            r"|room\b)(?:\w.{0,80}\b(?:as[- ]is|as (?:it|they) (?:is|are)|alone|untouched"
            r"|unchanged|in place|intact)\b|(?:the|all|my|any|our) \w)",
            r"(?:preserve|retain|maintain (?!an?\b|it\b)) ?\w",
        ),
        within=(
            r"(?:\b(?:while|by)|[,;]) (?:still )?(?:keeping|preserving|maintaining|retaining)\b",
            r"(?<!can still )\b(?:remains?|stays?|keeps?|left|leave) (?:unchanged|as[- ]is|the same"
            r"|untouched|intact)\b",
        ),
        imperative=True,
    ),
    cue(
        "rule",
        "From now on, write the commit messages in English.",
        "default forward future henceforth now onwards time times whenever",
        clause=(r"(?:use|run|write)\b.{1,40}\bby default\b",),
        within=(
            r"\b(?:from (?:now|here|this point|today) on(?:wards?)?|henceforth"
            r"|going forward)\b",
            r"\b(?:in (?:the )?future|for (?:all )?future \w+)\b(?!,? (?:i'd|i would"
            r"|we could|we might|we may|we'll|we will|it|perhaps|i'll))(?=.{0,80}\b(?:use"
            r"|please|don't|should|always|never|make sure|keep|ask|put|write|run|check)\b)",
            r"\bwe (?:basically |always )?want .{3,60}\bevery time\b",
            r"(?<!almost )\b(?:every|each) time you\b(?!.*\byou (?:end up|keep|always"
            r"|forget)\b)",
            r"\bwhenever you (?!need|want|like|feel|can|get|have|are ready)",
            r"\bat all times\b",
            r"\bfor the rest of (?:this|the|our) (?:session|project|conversation|chat"
            r"|work)\b",
            r"(?<!will )\bby default,? (?:use|do|always|write|show|run)\b",
        ),
        anywhere=True,
        lasting=True,
    ),
    cue(
        "rule",
        "Ask me before you delete anything.",
        "after approval avoid avoiding before confirmation continuously first if need once "
        "permission "
        "periodically regularly should unless until when whenever without",
        start=(
            r"if any\b.{3,80}, (?:please )?" + VERB + r"\b",
            r"(?:once|after) you (?:fix|finish|change|make|add|complete|edit"
            r"|update)\w*\b.{2,50}, (?:please )?" + VERB + r"\b",
            r"when(?:ever)? (?!testing|running|trying|clicking|opening|using|looking"
            r"|checking)\w+ing\b"
            r".{3,80}, (?:please )?" + VERB + r"\b(?! (?:an?|this) error)",
            r"(?:once|when(?:ever)?|after|if) (?:an?|any|each|every) [\w ]{3,50}, (?:please )?"
            + VERB
            + r"\b",
            r"(?:periodically|regularly|continuously),? " + VERB + r"\b",
            r"(?:when(?:ever)?|once|after) you\b[^,]{3,60}, (?:please |then |also )*"
            + VERB
            + r"\b",
            r"if\b.{3,90}\bthen (?:just |please )?" + VERB + r"\b",
            r"(?:when(?:ever)?|if) (?:you|in doubt|unsure|something)\b.{0,50}, (?:ask"
            r"|check|stop|tell|don't|use|prefer|please|always|never|just ask)\b",
            r"before (?:you|any|taking|making|doing|marking|starting|writing"
            r"|changing)\b.{0,60}, (?:please )?(?:" + VERB + r"|do)\b",
            r"(?:always )?before (?:you )?(?:commit|push|merg|deploy|releas|delet|finish"
            r"|chang|edit|start)\w*\b.{0,60},",
        ),
        clause=(
            r"(?:do|make|change|push|commit|delete|merge|start|proceed|write"
            r"|stop).{0,40}\b(?:unless|until) (?:i|you|we)\b",
            VERB + r"\b.{1,100}\bwithout (?:asking|my (?:ok|okay|approval|permission|consent)"
            r"|touching|changing|breaking|modifying|using|adding|relying|hurting|affecting"
            r"|altering)\b",
        ),
        within=(
            r"\b(?:ask|check with|discuss with|confirm with|consult|tell|show|talk to"
            r"|run (?:it|this|that|them|things) by) (?:me|us)\b.{0,60}\b(?:before|first)\b",
            r"\bget (?:my |a |an )?(?:confirmation|approval|permission|ok|okay)\b",
            r"(?:\A"
            + VERB
            + r"|\bplease|\byou (?:should|must)|\balways)\b.{0,80}\bbefore (?:you )?(?:writ"
            r"|chang|commit|push|implement|touch|merg|delet|mak|do)\w* (?:any|anything"
            r"|code|the code|changes)\b",
            r"(?:\A"
            + VERB
            + r"|\bplease)\b.{0,80}\bbefore (?:you )?(?:answer|respond|reply|proceed"
            r"|continu|start)\w*[.!]*\Z",
            r"\bbefore (?:you |we )?(?:make|making|start|starting|write|writing|change|changing"
            r"|commit"
            r"|committing|push|implement|implementing|do|doing) (?:any|anything|code|the code"
            r"|changes"
            r"|code changes)\b",
            r"\byou should (?:always |also |only )?(?:be (?:using|doing|running|asking|checking"
            r"|delegating)|use|ask|run|first)\b(?!.*\?)(?! (?:be able|see))",
            r"\bi(?:'d)? need you to (?:first|be|confirm|always|never|verify|stay|stop)\b",
            r"\b(?:try (?:your best )?to avoid|avoiding using)\b",
        ),
    ),
    cue(
        "rule",
        "At most 3 retries per request.",
        "budget deadline exceed least limit max maximum minimum more most",
        start=(
            r"(?:at most|no more than|not more than) (?:one|two|three|four|five|ten)\b",
            r"(?:at most|no more than|at least|not more than|no longer than|maximum"
            r"|max\.?) (?:of )?\d(?!.*\bcan be added\b)",
        ),
        within=(
            r"(?:\A"
            + VERB
            + r"|\b(?:should|must|want|needs?|requires?))\b.{0,70}\b(?:at most|no more than"
            r"|at least|not more than|no longer than|fewer than|maximum of"
            r"|minimum of) (?:\d|one (?!of)|two|three|four|five|ten|a )",
            r"\blimit (?:it|this|them|yourself) to \d|\bmax(?:imum)?(?: of)? \d",
            r"\b\d+(?:-\d+)? (?:lines?|words?|characters?|sentences?|pages?|bullets?"
            r"|minutes?|files?|paragraphs?|rows?) (?:max|maximum|at most|or (?:less"
            r"|fewer))\b",
            r"\b(?:my|our|the|total|hard) (?:budget|deadline|quota)\b.{0,30}\b(?:is|are"
            r"|of|:) ",
            r"\bmust(?:n't| not) exceed\b",
            r"\bshould never exceed\b",
        ),
    ),
    cue(
        "rule",
        "Answer in German please.",
        "all answer any be brief concise do each every explain follow keep make reply "
        "respond speak talk terse use write",
        clause=(
            r"(?:answer|reply|respond|speak|talk|communicate)(?: to me| me)?(?: only"
            r"| always)? (?:in|with|using|like|as)\b",
            r"be (?:concise|brief|terse|precise|short|honest|direct|consistent)\b",
            r"(?:write|format|name|prefix|store|document|validate|wrap|sign) (?:all|every"
            r"|each|any)\b(?! (?:that|this|of)\b)",
            r"(?:use|write|do|follow)\b.{1,50}\b(?:for (?:all|every|any|each|new)\b"
            r"|in (?:the imperative|all|every|any|each|new)\b|everywhere|throughout"
            r"|across (?:the|all|every))",
            r"(?:use\b.{1,40}\bfor \w+ing\b|do (?:all |your |any )+\w+ing (?:with|in)\b)",
            r"use (?:proper|meaningful|readable|descriptive|consistent|clear) ",
            r"use (?:metric|imperial|tabs|spaces|british|american|the metric"
            r"|conventional)\b",
            r"follow\b.{1,60}\b(?:strictly|exactly|closely|to the letter)\b",
            r"follow (?:the |our |my )?(?:existing |same |general "
            r"|usual )?(?:[\w-]+ ){0,2}(?:conventions?|style|pattern|guidelines?"
            r"|standards?|rules|camelcase|snake_case|naming)\b",
        ),
        within=(
            r"\b(?:make|keep) (?:it|them|that|this|your (?:answers?|replies|responses)"
            r"|answers?|replies|responses) (?:very |as )?(?:concise|brief|short|simple"
            r"|terse|minimal)\b",
        ),
    ),
    cue(
        "rule",
        "Rule: one change per pull request.",
        "constraint constraints convention conventions evict important mandatory must "
        "nothing policy required rule rules",
        start=(
            r"(?:the |a |our |new |hard )?(?:rules?|policy|conventions?|constraints?"
            r"|important)(?: \d+)? ?[:–—-] (?!https?:)",
        ),
        within=(
            r"\b(?:is|are) (?:mandatory|not optional|a must)\b",
            r"\bdo_not_evict\b",
            r"\bas a rule,",
            r"\b(?:our|the|my|house) (?:rule|policy|convention) (?:is|says)\b",
            r"\b(?:strict|firm|clear|hard) [\w-]+ (?:policy|rule)\b",
        ),
        lasting=True,
    ),
)
