"""What a message that is not English is after, told by the small phrases of its language.

The same three answers as for English, and as calm: small talk gets nothing, and an order without a
question in it is no question. Where a language has no list here, its question marks count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

from mindstone_tui.core.languages import SMALL_WORDS
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.words import fold, words_of

Intent = Literal["nothing", "asks", "tells"]

_LONGEST_SMALL_TALK: Final = 12

_SMALL_TALK: Final = (
    # German, Dutch, Swedish
    """danke schön vielen dank bitte weiter mach machen gut super toll prima klasse genau stimmt
    okay ok alles klar hilft hallo hi guten morgen tag abend geht klingt passt verstanden fertig
    los nochmal erstmal tschüss bis später heel erg bedankt helpt goed goedemorgen hallo ga maar
    verder klinkt prima oké hoi graag tack hej bra fortsätt""",
    # French, Spanish, Italian, Portuguese
    """merci beaucoup bonjour salut bonsoir ça va comment allez vas tu vous continue continuez
    parfait super génial accord d'accord aide m'aide s'il plaît compris très bien muchas gracias
    hola buenos días buenas tardes noches sigue
    continúa continua perfecto genial vale claro suena bien ayuda mucho
    entendido estás estáis tal grazie mille ciao buongiorno buonasera continua perfetto ottimo
    bene capito aiuta molto stai sta va avanti obrigado obrigada olá oi bom boa dia tarde noite
    continue continua perfeito ótimo beleza entendi ajuda muito tudo vai você""",
    # Polish, Turkish, Czech
    """dziękuję dzięki cześć dzień dobry dobrze świetnie super jasne rozumiem brzmi pomaga dalej
    mów się masz teşekkürler teşekkür ederim sağol merhaba selam günaydın nasılsın iyi akşamlar
    devam et tamam harika güzel anladım yardımcı kulağa hoş geliyor çok oldu bu bana děkuji
    ahoj dobrý den pokračuj""",
    # Russian, Ukrainian, Greek, Arabic
    """спасибо большое привет доброе утро добрый день вечер хорошо отлично супер ясно понял
    поняла помогает продолжай продолжайте дальше пожалуйста дела ладно окей дякую привіт добре
    ευχαριστώ πολύ γεια καλημέρα καλησπέρα συνέχισε τέλεια εντάξει ωραία شكرا جزيلا مرحبا صباح
    مساء الخير حالك كيف حسنا جيد جيدا ممتاز تابع استمر تمام يبدو يساعدني هذا فضلك من""",
)


@cache
def _small_talk() -> frozenset[str]:
    """The words of small talk as they are indexed; cut when the first message asks for them."""
    return frozenset(word for text in _SMALL_TALK for word in words_of(text))


_SMALL_PHRASES: Final = MappingProxyType(
    {
        "ja": "ありがとう(?:ござい(?:ます|ました))?|どうも|助かり(?:ます|ました)"
        "|続けて(?:ください)?|おはよう(?:ございます)?|こんにちは|こんばんは"
        "|お?元気ですか|わかりました|分かりました|了解(?:です|しました)?|いいですね"
        "|はい|オーケー|お願いします|すみません",
        "zh": "非常感谢|谢谢(?:你|您)?|多谢|请?继续|早上好|晚上好|你好吗?|您好|好的?"
        "|听起来不错|明白了?|知道了|没问题|太好了|不错|可以|这?对我很有帮助|请",
        "ko": r"정말|너무|고마워요?|고맙습니다|감사합니다|감사해요|도움이\s?(?:됐어요"
        r"|되었습니다|돼요)|계속(?:해)?\s?(?:주세요)?|안녕(?:하세요)?|잘\s?지내(?:세요"
        "|요)?|네|예|좋아요?|좋습니다|알겠(?:어요|습니다)|그래요?",
        "th": "ขอบคุณ(?:มาก)?|ช่วยได้(?:เยอะ)?(?:เลย)?|ทำ?ต่อ(?:ไป)?(?:เลย)?"
        "|สวัสดี(?:ตอน(?:เช้า|บ่าย|เย็น))?|สบายดี(?:ไหม|มั้ย)?|โอเค|ฟังดูดี|ดี(?:มาก"
        "|เลย)?|เข้าใจแล้ว|ครับ|ค่ะ|คะ|นะ",
    }
)
"""In scripts without spaces: what is left of small talk without these is nothing."""

_QUESTION_WORDS: Final = MappingProxyType(
    {
        "de": "wer|wem|wen|wessen|was|wann|wo|woher|wohin|womit|wofür|warum|weshalb|wieso|wie"
        "|wieviel|welche[rsmn]?|hat|haben|hatte|ist|sind|war|gibt|habe|gab",
        "nl": "wie|wat|wanneer|waar|waarom|hoe|hoeveel|welke?|heeft|hebben|is|zijn|was",
        "fr": "qui|que|quoi|qu|quand|où|comment|pourquoi|combien|quel(?:le)?s?|est-ce|à qui|de qui",
        "es": "quién(?:es)?|qué|cuándo|dónde|cómo|cuál(?:es)?|cuánt[oa]s?|por qué|a quién",
        "it": "chi|che|cosa|quando|dove|come|perché|qual[ei]?|quant[oaie]|dov",
        "pt": "quem|que|o que|quando|onde|como|qual|quais|quant[oa]s?|por que|por qual",
        "pl": r"kto|kogo|komu|co|kiedy|gdzie|dlaczego|jak|ile|czy|któr\w+|jaki\w*|jakich"
        "|na jakim",
        "sv": "vem|vad|när|var|varför|hur|vilken|vilket|vilka",
        "ru": "кто|кого|кому|что|когда|где|куда|откуда|почему|зачем|как|сколько|чей"
        r"|как\w{2,3}|котор\w+|(?:в|на|через|с|по) как\w+",
        "uk": r"хто|що|коли|де|куди|чому|як|скільки|чий|як\w{1,3}|котр\w+|чи",
        "el": r"ποιος|ποια|ποιο|τι|πότε|πού|γιατί|πώς|πόσ\w+",
        "ar": "من|ما|ماذا|متى|أين|كيف|لماذا|هل|أي|كم|بأي|في أي|على أي",
        "tr": "kim|ne|nerede|nereye|nasıl|neden|niçin|niye|hangi|kaç",
    }
)
"""What a question begins with."""

_ANYWHERE: Final = MappingProxyType(
    {
        "ja": "ですか|ますか|でしたか|ましたか|ませんか|でしょうか|何|いつ|どこ|誰|なぜ"
        "|どうして|どの|どう|いくら|いくつ",
        "zh": "吗|什么|哪|谁|为什么|怎么|多少|几[点个号时天]|多久|是否|呢[？?]?$",
        "ko": r"나요|까요|인가요|예요\?|무엇|무슨|뭐|언제|어디|누구|누가|왜|어떻게|어느|어떤"
        "|얼마|몇",
        "th": "อะไร|ไหน|เมื่อไหร่|เมื่อไร|ใคร|ทำไม|อย่างไร|ยังไง|ไหม|มั้ย|หรือเปล่า|เท่าไหร่"
        "|เท่าไร|(?<!เ)กี่|แค่ไหน",
        "tr": r"\b(?:ne zaman|ne kadar|hangi|kim|nerede|nasıl|neden|kaç|m[ıiuü](?:yiz|yız|sin"
        r"|sın)?)\b",
    }
)
"""What makes a question wherever it stands."""

_REQUESTS: Final = MappingProxyType(
    {
        "de": "bitte|lass uns|hilf mir|(?:kannst|könntest|würdest|willst) du|können (?:sie"
        "|wir)|ich (?:möchte|will|brauche)|mach|schreib|erstell|zeig|füge?|änder|erklär",
        "nl": "graag|laten we|help|(?:kun|kan|wil|zou) je|ik wil|schrijf|maak|leg uit",
        "fr": "s'il (?:te|vous) plaît|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|tu peux"
        "|aide-moi|je (?:veux|voudrais)|écris|fais|montre|explique|crée",
        "es": "por favor|¿?(?:puedes|podrías|puede usted)|ayúdame|quiero|necesito|escribe|haz"
        "|muestra|explica|crea",
        "it": "per favore|(?:puoi|potresti)|aiutami|vorrei|voglio|scrivi|fai|mostra|spiega|crea",
        "pt": "por favor|(?:você )?(?:pode|poderia)|me ajude|quero|preciso|escreva|faça"
        "|mostre|explique|crie",
        "pl": "proszę|(?:czy )?(?:możesz|mógłbyś|mogłabyś)|pomóż|chcę|napisz|zrób|pokaż|wyjaśnij",
        "ru": "пожалуйста|(?:ты )?можешь|можете|не мог(?:ла)? бы|помоги|хочу|напиши|сделай"
        "|покажи|объясни",
        "uk": "будь ласка|можеш|допоможи|хочу|напиши|зроби|покажи|поясни",
        "tr": "lütfen|yardım et|istiyorum|yaz|yap|göster|açıkla",
        "ar": "من فضلك|هل يمكنك|هل تستطيع|ساعدني|أريد|اكتب|اشرح",
    }
)
_WISHES: Final = MappingProxyType(
    {
        "ja": "(?:してください|て(?:ください|下さい|ほしい|くれ(?:ます|る)?か?)"
        "|お願いします)[。！？?!]*$",
        "zh": "^请(?!问)|^帮(?:我|忙)|(?:可以|能)(?:帮|不能)?你?.{0,2}帮我",
        "ko": r"(?:해|써|보여|만들어|알려)\s?(?:주세요|줘요?|줄래요?|주실래요?)[.!?]*$",
        "th": "^ช่วย|^กรุณา|^โปรด|หน่อย(?:ครับ|ค่ะ|คะ|นะ)?$",
    }
)
"""The same in scripts without spaces."""

_PAST: Final = MappingProxyType(
    {
        "de": r"erinner\w*|vorhin|neulich|letzte[sn]? (?:mal|woche|monat|sitzung)|damals"
        r"|wie besprochen|(?:haben|hatten) wir (?:\w+ ){0,5}(?:entschieden|vereinbart"
        r"|besprochen|gesagt|gewählt)|hatte ich (?:\w+ ){0,4}gesagt|weißt du noch",
        "nl": r"herinner\w*|laatst|vorige (?:keer|week)|weet je nog|hadden we",
        "fr": r"rappelle\w*|souvien\w*|l'autre jour|la dernière fois|la semaine dernière"
        "|(?:avions|avons)-nous (?:décidé|choisi|convenu|dit)|on avait (?:décidé|dit"
        "|choisi)",
        "es": r"recuérd\w*|recuerd\w*|la última vez|el otro día|la semana pasada"
        "|habíamos (?:decidido|dicho|acordado|elegido)",
        "it": r"ricord\w*|l'altra volta|l'ultima volta|la settimana scorsa|avevamo (?:deciso"
        "|detto|concordato|scelto)",
        "pt": r"lembr\w*|da última vez|outro dia|semana passada|(?:tínhamos"
        "|havíamos) (?:decidido|dito)",
        "pl": "przypomnij|pamiętasz|ostatnio|ostatnim razem|w zeszłym tygodniu|(?:ustali"
        "|zdecydowa)liśmy",
        "ru": r"напомни\w*|помнишь|помните|в прошлый раз|на прошлой неделе|мы (?:решили"
        "|договорились)",
        "uk": "нагадай|пам'ятаєш|минулого разу|ми (?:вирішили|домовилися)",
        "tr": r"hatırl\w*|geçen (?:sefer|hafta|gün)|(?:karar vermiştik|konuşmuştuk|demiştik)",
        "ar": "ذكرني|تذكر|المرة (?:السابقة|الماضية)|الأسبوع الماضي",
        "ja": "前回|この前|先日|覚えて|思い出|決めた(?:の|こと)?は|言った(?:の|こと)?は",
        "zh": "上次|之前(?:说|决定|提)|还记得|提醒我|上周|我们(?:决定|说好|商定)了?(?:什么|哪)",
        "ko": r"지난번|저번에|기억나|기억해|알려\s?줬|정했(?:지|나|던)",
        "th": "ครั้งก่อน|คราวก่อน|ครั้งที่แล้ว|จำได้|เคยบอก|เคยตกลง",
    }
)

_SENTENCE: Final = pattern_of(r"[^.!?。！？؟;\n]+[.!?。！？؟;]*")
_MARKED: Final = pattern_of(r"[?？؟]")
_GREEK_MARK: Final = pattern_of(r"[;?]\W*$")


def intent_in(text: str, language: str) -> Intent:
    """Whether a message in another language asks, tells or orders something, or neither."""
    if _is_small_talk(text, language):
        return "nothing"
    lowered = text.lower()
    if _has(_PAST, language, lowered):
        return "asks"
    sentences = [part.strip() for part in _SENTENCE.findall(lowered) if part.strip()]
    asking = [part for part in sentences if _asks(part, language)]
    if any(_MARKED.search(part) for part in asking):
        return "asks"
    return "asks" if asking and len(sentences) == 1 else "tells"


def _is_small_talk(text: str, language: str) -> bool:
    if language in _SMALL_PHRASES:
        left = re.sub(_SMALL_PHRASES[language], "", text)
        return not any(char.isalnum() for char in left)
    words = [word for word in words_of(text) if not re.fullmatch(r"u[0-9a-f]{4,5}", word)]
    if len(words) > _LONGEST_SMALL_TALK:
        return False
    small = _small_talk() | frozenset(_folded(SMALL_WORDS.get(language, frozenset())))
    return all(word in small for word in words)


def _folded(words: frozenset[str]) -> Iterator[str]:
    yield from (fold(word) for word in words)


def _asks(sentence: str, language: str) -> bool:
    """Whether a sentence asks for something that may have been said; a request does not."""
    plain = sentence.lstrip(" ¿«\"'“„(،,")
    if language in _REQUESTS and re.match(rf"(?:{_REQUESTS[language]})\b", plain):
        return False
    if _has(_WISHES, language, sentence):
        return False
    if _MARKED.search(sentence) or (language == "el" and _GREEK_MARK.search(sentence)):
        return True
    if language in _QUESTION_WORDS and re.match(rf"(?:{_QUESTION_WORDS[language]})\b", plain):
        return True
    return _has(_ANYWHERE, language, sentence)


def _has(table: MappingProxyType[str, str], language: str, text: str) -> bool:
    return language in table and re.search(table[language], text) is not None
