"""The tuned numbers behind when recall speaks, and where each comes from.

Each group says on what it was measured, what came out, and when it was set; "unknown" where nobody
wrote that down. Whoever changes a number measures again (`tests/bench/bench_recall_quality.py`,
`tests/bench/bench_languages.py`) and writes down here what came out.
"""

from types import MappingProxyType
from typing import Final

import msgspec

# Measured on: fifteen conversations between two people or with an assistant, their own questions,
# those of the others, and the 208 messages of said_to_agents.tsv.
# Figures: an answerable question gets its evidence in 80.4 % (two people) and 84.0 % (assistant);
# one about something never said gets anything in 4.0 %, small talk and instructions in 0.3 %.
# Date: 2026-11-16.

FLOOR: Final = 0.489
"""Evidence, less its doubt, from which hits are worth bringing back."""
TOGETHER: Final = 3
"""How many of the best hits tell together whether something was found."""
TOGETHER_SHARE: Final = 0.45
"""How much the mean of those counts beside the best, which may be good by chance."""
ALONE: Final = 0.575
"""Evidence from which one hit is enough, whatever stands beside it."""
ASKED_THE_MODEL: Final = 0.85
"""What somebody asked the model before counts this much: that they asked says not what is so."""
TELLING: Final = 1.37
"""An instruction or a remark needs this many floors, and must name what it is about."""

# Measured on: five sets of questions, two numbers fitted with each set left out in turn
# (tests/bench/fit_speak.py). Figures: docs/recall.md. Date: 2026-11-17.

FEW: Final = 20
"""Passages up to which a history is as short as can be:"""
IN_FEW: Final = 0.77
"""this share of a floor is enough there, for the best of few is seldom good by chance,"""
WITH_MORE: Final = 0.05
"""and so much more is asked for each time there are e times as many, up to the whole floor."""
OF_THE_WORLD: Final = 0.7
"""What is asked as one asks what anybody could know keeps this share of its evidence."""

# Measured on: unknown by themselves; the figures above were measured with them.
# Date: 2026-11-16.

MISSING_WORDS: Final = 0.3
"""The share of its evidence that a question loses when none of its words is met by any hit."""
OF_THE_MODEL: Final = 0.7
"""What the model said counts this much where somebody asks what they themselves did or have: it
says what one might do, and they said what is so."""

# Measured on: twenty messages in each of fifteen languages among sixty English ones, languages.tsv.
# Figures: a question in its own language gets its fact in 67 %, five of sixty about something never
# said get anything; with one or two notes, a question gets its note in three of four cases, one
# about something else in one of a hundred.
# Date: 2026-11-15 for the floor, 2026-11-16 for what is taken off it.

OTHER_FLOOR: Final = 0.58
"""The floor where question or hit is not English and history is long."""
LONG: Final = 150
"""Passages from which on a history is long."""
SHORTER: Final = 0.127
"""The share of that floor that is taken off each time history is shorter by a factor of e: the
best of few passages is seldom good by chance."""
LOWEST: Final = 0.5
"""The share of it that always stays."""

# Measured on: as the first group, whose figures were measured with them, too.
# Figures: on the day they were set, an answerable question got its evidence in 80.1 % (two people)
# and 83.0 % (assistant), one about something never said anything in 5.3 %, small talk in 0.4 %.
# Date: 2026-11-15.

DOUBT: Final = 3.0
"""Evidence for a question of few or common words is doubted: this much rarity halves it."""
FROM_NEIGHBOURS: Final = 0.5
"""The share of what its neighbours add that speaks for a hit itself."""
NEVER_MENTIONED: Final = 0.4
"""Evidence that a question loses which names somebody or something that history does not know."""
SOMEBODY_ELSE: Final = 0.12
"""How much more may be known about others before the question is taken for one about them."""
BESIDE_THE_BEST: Final = 0.4
"""Once recall speaks, hits with this share of the best score may come along."""
FAR_BELOW: Final = 0.2
"""And hits with this share, if something in their own text speaks for them."""
OWN_EVIDENCE: Final = 0.1
"""How much in its own text speaks for a hit that is far below the best."""
LOOKED_AT: Final = 16
"""How many of the first hits may carry the decision."""
COMPARED: Final = 24
"""How many of the strongest candidates are looked at for whom they are about."""

# Measured on: unknown. Figures: unknown.
# Date: 2026-11-15.

WORDS_FLOOR: Final = 0.4
"""The floor where only words could be compared."""
RULE_SHARES: Final = 2
"""Words that a standing instruction and a message must share for it to apply."""
RULE_SHARE: Final = 0.5
"""The share of the shorter one's words that this must be."""
# What is looked at, and what a score is made of.
# Measured on: the development sets of tests/bench/bench_recall_quality.py. Figures: docs/recall.md.
# Date: 2026-11-15.

FROM_WORDS_ALONE: Final = 80
"""Passages that their words bring in,"""
FROM_WORDS: Final = 60
"""so many of them beside those that their meaning brings in,"""
FROM_MEANING: Final = 120
"""which are these."""
WITH_NEIGHBOURS: Final = 36
"""How many of the strongest bring their neighbours along."""
BACKGROUND: Final = 48
"""Passages, evenly spread over history, whose closeness says what is usual."""
USUAL_COSINE: Final = 0.1
USUAL_CLOSENESS: Final = 0.2
USUAL_OTHER: Final = 0.15
"""What unrelated texts have; a short history cannot tell yet what is usual in it."""
ASKS_ITSELF: Final = 0.5
"""The share of its nearness across languages that a question keeps: all of them are alike."""
USUAL_CROWDING: Final = 0.1
"""How near a passage that says something is to the others of its history."""
CROWDED: Final = 1.0
"""How much of what it is nearer than that is taken off its nearness across languages."""
BY_CHANCE: Final = 0.04
"""Closeness that a passage gains each time its length grows by a factor of e."""
UNRELATED: Final = 0.35
"""Closeness below which a word has nothing to do with what it was compared with."""
FEW_TOKENS: Final = 20
"""The length from which that shows."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each part of a score counts; about 1.0 is a strong hit."""

    words: float = 0.35
    words_alone: float = 1.0
    """For a passage that has no vector yet: its words speak for all three."""
    meaning: float = 0.45
    closeness: float = 1.3
    other_words: float = 0.5
    other_meaning: float = 2.0
    """The same two where question or passage is not English: another model compares them."""
    neighbour: float = 0.3
    answer: float = 0.25
    """What a neighbour gives beside that when it asked, and this is what came after."""
    second_neighbour: float = 0.18
    before_long: float = 0.6
    """The share of this that a long message gives to the one before it, which asked for it,"""
    after_long: float = 0.2
    """and to the one after it, which often goes on to something else."""
    answers: float = 0.2
    """Of the short message before it, to a long answer."""
    sitting: float = 0.25
    """Of the best in the same sitting."""
    speaker: float = 0.4
    person: float = 0.2
    asks: float = -0.1
    time: float = 0.1
    date: float = 0.15
    pieces: float = -0.08
    """For each time that a message's pieces are e times as many: the best of many is often good
    by chance."""
    rule: float = 0.14
    pin: float = 0.1
    correction: float = 0.05
    use: float = 0.02
    age: float = 0.005
    kinds: float = 1.0


DEFAULT: Final = Weights()
KINDS: Final = MappingProxyType(
    {
        "memory": 0.1,
        "note_taken": 0.05,
        "handoff_replayed": -0.3,
        "log": -0.1,
        "journal": -0.1,
        "tool_returned": -0.08,
    }
)
"""What a passage gains or loses by what it is: derived text loses against what it came from."""
SHORT: Final = 400
"""Characters: only messages shorter than this take from their neighbours."""
SHORT_QUESTION: Final = 120
"""Characters from which on a message that ends in a question usually tells something, too."""
WEIGHED: Final = 60
"""How many of the strongest are weighed by what they say."""
ARRANGED: Final = 12
"""How many of the first hits are compared with each other."""
NEAR_DUPLICATE: Final = 0.85
AS_STRONG: Final = 0.6
"""A newer statement replaces an older one only if it answers the question nearly as well."""
