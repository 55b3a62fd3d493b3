"""Which language a text is in, told by its script and its small words. Pure, and quick enough to be
asked for every passage.

The answer decides which model compares meanings and which words are too common to look for, so it
is cautious: a text is English, or code, until something says otherwise. A name with an accent, a
quoted word or a greeting in an English sentence does not.
"""

from __future__ import annotations

import re
from collections import Counter
from types import MappingProxyType
from typing import Final

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text_cache import remembers

ENGLISH: Final = "en"
UNKNOWN: Final = "und"
"""A script that is not told apart here."""

_READ: Final = 1_200
"""Characters that are looked at."""
_SCRIPT_SHARE: Final = 0.3
"""The share of a text that another script must have for the text to be in it."""
_DENSE_LETTERS: Final = 3
"""A character of Chinese, Japanese or Korean says as much as this many letters."""
_FEW_WORDS: Final = 14
"""In a text this short, with no English word in it, one telling word is enough."""

_LISTS: Final = MappingProxyType(
    {
        "en": """the and of to in is it you that he was for on are with as his they be at this have
            from or had by but some what there we can out other were all your when up use how said
            an each she which do their if will way about many then them would like so these her
            make him has two more go no could my than been who its now did get come i me not just
            does where why our us into over after please should because any def return import self
            class function const let public static void none null true false else while""",
        "de": """der die das und ist nicht ein eine einen einem einer eines ich du er sie es wir ihr
            mich mir dich dir uns euch den dem des im zum zur vom beim auf aus bei mit nach von
            zu vor für über unter durch ohne gegen wie was wer wo wann warum welche welcher welches
            welchen welchem hat haben hatte habe hast wird werden wurde kann können muss müssen soll
            sollen sind war bin bist sein seine meine mein meinem meinen meiner dein deine unser
            unsere kein keine keinen auch noch nur schon aber oder wenn dann weil dass daß als am um
            so sehr mehr hier dort jetzt immer nie jeden bitte danke ja nein gibt mal doch denn
            statt gut guten heute morgen gestern viel viele wieder ganz neue neuen""",
        "fr": """le la les un une des du de et est pas ne je tu il elle nous vous ils elles on ce
            cette ces mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs au aux dans
            sur sous pour par avec sans chez qui que quoi dont où quand comment pourquoi quel quelle
            quels quelles combien suis es sont était ai as avons avez ont avait sera fait faire faut
            peut doit plus moins très bien mais ou donc car si ici là aussi encore déjà jamais
            toujours tout tous toute merci bonjour oui non qu l d j c n s m t en y puis avant après
            accord mois jours prochain moment veut plaît ça va te me se""",
        "es": """el la los las un una unos unas de del y es no yo tú él ella nosotros ellos se me te
            nos le les lo mi mis tu tus su sus nuestro nuestra nuestros en con sin por para sobre
            entre hasta desde que qué quién cuándo cuando dónde donde cómo como cuál cuáles cuánto
            cuánta porque por está están estoy estás son soy era fue ser hay ha han he había tiene
            tengo puede puedo hace más menos muy pero o si sí ya también nunca siempre este esta
            esto ese esa eso al gracias hola favor ahora solo antes después delante nuevo nueva
            quiere vale bien buenos días mucho muchas""",
        "it": """il lo la i gli le un uno una di del della dello dei delle degli e è non io tu lui
            lei noi voi loro mi ti ci vi si mio mia miei mie tuo tua suo sua nostro nostra nostri in
            con senza per su sul sulla da dal dalla nel nella tra fra a al alla ai alle che chi cosa
            quando dove come perché quale quali quanto quanta sono sei siamo era ha ho hai abbiamo
            hanno può posso deve fa fare più meno molto ma o se sì già anche mai sempre questo
            questa quello quella grazie ciao l d un dell all nell sull poi prima dopo mese giorni
            prossimo nuovo nuova vuole viene va bene stai favore buongiorno ora solo""",
        "pt": """o a os as um uma de do da dos das e é não eu tu ele ela nós eles elas você vocês
            me te se nos lhe meu minha meus minhas teu sua seu suas seus nosso nossa nossos em no na
            nos nas com sem por pelo pela para pra sobre entre até que quem quando onde como por
            porque qual quais quanto quanta está estão estou são sou era foi ser há tem tenho têm
            pode posso deve vai vamos mais menos muito mas ou se sim já também nunca sempre este
            esta isso isto esse essa ao à às obrigado obrigada olá agora só antes depois novo nova
            quer precisa ser lugar próximo mês tudo bem bom dia favor""",
        "nl": """de het een en is niet ik jij je hij zij ze wij we jullie mij me jou hem haar ons
            onze mijn jouw zijn hun in op aan van voor met zonder bij naar uit over onder tegen door
            om te wat wie waar wanneer waarom hoe welke welk hoeveel heeft hebben heb hebt had
            wordt worden werd kan kunnen moet moeten mag wil zal zou was waren ben bent geen ook nog
            al maar of als dan omdat dat die dit deze er hier daar nu altijd nooit meer veel heel
            graag bedankt dank ja nee eens goed oké komt gaan gaat elke twee daarna verder
            volgende nieuwe""",
        "pl": """i w z na do się nie jest to że jak co kto kiedy gdzie dlaczego czy który która
            które którego jaki jaka jakie jakim jakiej ile ja ty on ona my wy oni mnie mi ciebie go
            jej ich nas nam mój moja moje moją mojej moim nasz nasza nasze naszego swój ten ta te
            tego tej są był była było być będzie mam ma mamy mają może można trzeba musi dla od za
            po przed przez przy bez ale lub albo bo więc gdy jeśli już też tylko jeszcze zawsze
            nigdy bardzo tak proszę dziękuję o u ze we chce każdego potem teraz dobrze nowy nowa
            dzień""",
        "tr": """ve bir bu şu o da de mi mı mu mü ne nasıl neden niçin niye kim nerede nereye
            hangi kaç zaman için ile gibi kadar çok daha en değil var yok ben sen biz siz onlar
            benim senin bizim onun bana sana bize beni seni bizi ama veya ya eğer çünkü her hiç
            sadece artık şimdi sonra önce olarak olan oldu olduğu olur lütfen teşekkürler teşekkür
            evet hayır tamam ki ise yeni yerine et devam iki gün günü ay gelecek bunu şey
            nasılsın günaydın""",
        "sv": """och att det som en ett är inte jag du han hon vi ni de mig dig oss er honom henne
            min mitt mina din ditt sin på i av för med till från om hos utan över under vid vad vem
            var när hur varför vilken vilket vilka har hade ska skulle kan måste vill blir blev
            finns men eller så också bara redan aldrig alltid den denna detta tack ja nej""",
        "da": """og at det som en et er ikke jeg du han hun vi i de mig dig os jer min mit mine din
            dit på af for med til fra om hos uden over under ved hvad hvem hvor hvornår hvordan
            hvorfor hvilken hvilket hvilke har havde skal skulle kan må vil bliver blev findes men
            eller så også kun allerede aldrig altid den denne dette tak ja nej""",
        "cs": """a v z na do se ne je to že jak co kdo kdy kde proč který která které jaký jaká
            jaké kolik já ty on ona my vy oni mě mi tě ho jí jich nás nám můj moje moji náš naše
            ten ta tento této jsou byl byla bylo být bude mám má máme mají může musí pro od za po
            před přes při bez ale nebo protože když jestli už také jen ještě vždy nikdy velmi ano
            prosím děkuji jsem jsme""",
        "ro": """și în de la cu pe un o este nu eu tu el ea noi voi ei mă te se ne meu mea mei
            nostru noastră lui din pentru fără despre între până ce cine când unde cum care cât
            câte sunt era fi are am avem au poate trebuie mai foarte dar sau dacă și deja tot numai
            doar niciodată întotdeauna acest această acea mulțumesc da""",
        "hu": """a az és egy nem hogy is ez azt mit ki mikor hol miért hogyan melyik mennyi hány én
            te ő mi ti ők van vannak volt lesz lehet kell meg már még csak de vagy ha mert mint
            nagyon mindig soha itt ott most igen kérem köszönöm szép""",
        "fi": """ja on ei se että en hän minä sinä me te he minun sinun meidän tämä tuo joka mikä
            mitä kuka milloin missä miksi miten kuinka mutta tai jos kun niin kuin myös vain jo
            vielä aina koskaan ovat oli olla ole voi pitää kiitos kyllä""",
        "vi": """và của là không có được cho một các những tôi bạn anh chị em chúng ta này đó gì ai
            khi nào đâu tại sao thế nào bao nhiêu với trong trên ở từ đến đã đang sẽ rất nhưng hoặc
            nếu vì cũng chỉ cảm ơn""",
        "id": """dan yang di ke dari untuk dengan tidak ini itu saya aku kamu anda dia kami kita
            mereka apa siapa kapan mana bagaimana kenapa mengapa berapa adalah ada akan sudah belum
            bisa harus pada oleh sebagai tetapi atau jika karena juga hanya sangat selalu terima
            kasih""",
        "ru": """и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по
            только её ее мне было вот от меня ещё о об из ему теперь когда даже ну ли если уже или
            ни быть был него до вас нибудь вам ведь там потом себя ей они тут где есть надо для мы
            тебя их чем была сам без будто чего раз тоже под будет кто этот этого какой какая какие
            каком какую почему зачем сколько мой моя моё моего моей наш наша нашего это эта при
            можно нужно через""",
        "uk": """і й в у не що він на я з із як а то все вона так його але ти до ж ви за б по тільки
            її мені було від мене ще про коли навіть чи якщо вже або ні бути був де є треба для ми
            тебе їх чим без хто цей який яка які чому скільки мій моя наш наша це та при можна""",
        "el": """και το τα η ο οι του της των τον την στο στη στον στην με σε για από δεν θα να
            είναι ήταν έχει έχω έχουμε που πως τι ποιος ποια ποιο πότε πού γιατί πόσο εγώ εσύ αυτός
            αυτή αυτό εμείς μας μου σου σας τους ένα μια ένας αλλά ή αν όταν πολύ πριν μετά μόνο
            ναι όχι ευχαριστώ""",
        "ar": """في من على إلى عن مع هذا هذه ذلك التي الذي ما ماذا من متى أين كيف لماذا هل أي كم هو
            هي هم نحن أنا أنت كان كانت يكون قد لا لم لن إن أن أو ثم بعد قبل كل بين عند لكن يجب فقط
            شكرا نعم لدي لدينا""",
    }
)

SMALL_WORDS: Final = MappingProxyType(
    {name: frozenset(words.split()) for name, words in _LISTS.items()}
)
"""The words of each language that stand in every text and say what none of them is about."""

_LATIN: Final = tuple(name for name in _LISTS if name not in ("ru", "uk", "el", "ar"))
_ALSO_ENGLISH: Final = frozenset(
    re.findall(
        r"\w+",
        """a ai all am an and are as at be bin care ci code com come data day den die dig do does en
        es et fa file for fun had has hat have he her him his i id if in ini is it jest la li line
        log ma me men min mod more most my no non not nu of on op or os per plus pm pro real rev
        repo sa sans set she sin so son state sum system te test the them ti time to us van var via
        war was we were will with ya you""",
    )
)
"""Words that English and code write alike: they tell nothing."""
_TELLING: Final[dict[str, tuple[str, ...]]] = {}
for _name in _LATIN:
    for _word in SMALL_WORDS[_name]:
        if _name == ENGLISH or (_word not in _ALSO_ENGLISH and len(_word) > 1):
            _TELLING[_word] = (*_TELLING.get(_word, ()), _name)

_ENGLISH_WORDS: Final = frozenset(word for word, names in _TELLING.items() if ENGLISH in names)
_OTHER_WORDS: Final = frozenset(word for word, names in _TELLING.items() if names != (ENGLISH,))
_LETTERS_ALONE: Final = pattern_of("[a-z]+")

_LETTERS: Final = MappingProxyType(
    {
        "de": "ß",
        "es": "ñ¿¡",
        "pt": "ãõ",
        "pl": "łąęśźżćń",
        "tr": "ğışİ",
        "cs": "řůěťď",
        "hu": "őű",
        "ro": "țșăţş",
        "vi": "ăđơưạảấầẩậắằặẹẻẽềểễệỉịọỏốồổộớờởợụủứừửựỳỵỷỹ",
        "da": "øæ",
        "sv": "å",
        "fr": "œêèù",
        "it": "ìò",
        "fi": "",
        "nl": "ĳ",
    }
)
_HINTS: Final = tuple(
    (name, pattern_of(f"[{letters}]")) for name, letters in _LETTERS.items() if letters
)
_UMLAUT: Final = pattern_of("[äöü]")

_WORD: Final = pattern_of(r"(?<![\w./@:$#<>=\\-])[^\W\d_]+(?![\w/@:()=]|\.\w)")
"""A word of prose: part of an address, a path or an identifier is none."""
_ENDINGS: Final = MappingProxyType(
    {
        "de": "ungen|ung|keit|heit|lich|lichen|ische|ischen",
        "fr": "eux|euse|elle|ette|ées|aient",
        "es": "ción|iendo|aron|ieron|amos|dad",
        "it": "zione|zioni|iamo|ndo|gli|ità|ato|ati",
        "pt": "ção|ções|dade|aram|eram|inho",
        "nl": "lijk|lijke|heid|ijn|oeken|tjes",
        "pl": "emy|imy|ych|ować|iej|ość|ości|ał|ała|owego|ego",
        "tr": "yor|yorum|yoruz|lar|ler|lık|lik|imiz|ımız|umuz|ıyla|iyle|undan|inden",
    }
)
_ENDS: Final = pattern_of(
    "|".join(rf"(?P<{name}>\w{{3,}}(?:{ends}))" for name, ends in _ENDINGS.items())
)
"""How long words end in these languages and not in English."""
_ANY_END: Final = tuple(end for ends in _ENDINGS.values() for end in ends.split("|"))
_SCRIPTS: Final = pattern_of(
    "(?P<kana>[\u3041-\u30ff\uff66-\uff9d])|(?P<han>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])|(?P<ko>[\uac00-\ud7af\u1100-\u11ff])|(?P<ru>[\u0400-\u052f])"
    "|(?P<el>[\u0370-\u03ff\u1f00-\u1fff])|(?P<ar>[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff"
    "\ufe70-\ufefc])|(?P<he>[\u0590-\u05ff])|(?P<th>[\u0e00-\u0e7f])|(?P<hi>[\u0900-\u097f])"
    "|(?P<und>[\u0530-\u058f\u0980-\u0dff\u0e80-\u10ff\u1200-\u139f\u1780-\u17ff\u1800-\u18af])"
)
_BEYOND_ENGLISH: Final = pattern_of(
    "[^\x00-\x7f\xa0\xa2-\xa9\xab-\xb9\xbb-\xbe\xd7\xf7\u2000-\u206f\u20a0-\u20bf\u2100-\u2bff"
    "\ufe0f\U0001f000-\U0001faff]"
)
"""A letter that no English word has: not a dash, a quotation mark, an arrow or a face."""
_DENSE: Final = frozenset({"kana", "han", "ko"})
_UKRAINIAN: Final = pattern_of("[іїєґІЇЄҐ]")
_PERSIAN: Final = pattern_of("[پچژگ]")
_MOSTLY_KANA: Final = 0.1
"""The share of kana from which on Chinese characters are Japanese."""


@remembers(4_096)  # A passage is read when it is stored and whenever it is found.
def language_of(text: str) -> str:
    """The language as a code such as `de`; English where nothing tells otherwise."""
    read = text[:_READ]
    plain = read.isascii() or not _BEYOND_ENGLISH.search(read)
    if not plain and (script := _by_script(read)):
        return script
    return _by_words(read.lower(), plain=plain)


def is_english(text: str) -> bool:
    """Whether the model for English may be trusted with a text: code and numbers are, too.

    Hundreds of passages are asked this for each question, so most are told by one word.
    """
    return (text.isascii() and " the " in text) or language_of(text) == ENGLISH


def small_words_of(text: str) -> frozenset[str]:
    """The words that say nothing in the language of a text, other than English."""
    language = language_of(text)
    return SMALL_WORDS.get(language, frozenset()) if language != ENGLISH else frozenset()


def _by_script(text: str) -> str:
    """The language of another script than Latin; empty where that has too small a share."""
    counted = Counter(found.lastgroup or "" for found in _SCRIPTS.finditer(text))
    if not counted:
        return ""
    weight = sum(n * (_DENSE_LETTERS if name in _DENSE else 1) for name, n in counted.items())
    latin = sum(char.isalpha() for char in text) - counted.total()
    if weight < _SCRIPT_SHARE * (weight + max(latin, 0)):
        return ""
    counted["han"], kana = counted["han"] + counted["kana"], counted.pop("kana", 0)
    name = counted.most_common(1)[0][0]
    if name == "han":
        return "ja" if kana >= _MOSTLY_KANA * counted["han"] else "zh"
    if name == "ru" and _UKRAINIAN.search(text):
        return "uk"
    return "fa" if name == "ar" and _PERSIAN.search(text) else name


def _is_plainly_english(text: str) -> bool:
    """Whether nothing in a text without other letters hints at another language, at a first look.

    Without any small word of English, as in code, a word's end may still be such a hint.
    """
    words = _LETTERS_ALONE.findall(text)
    if not _OTHER_WORDS.isdisjoint(words):
        return False
    if not _ENGLISH_WORDS.isdisjoint(text.split()):
        return True
    return not any(word.endswith(_ANY_END) for word in words)


def _by_words(text: str, *, plain: bool) -> str:
    """The language written in Latin letters whose small words and letters a text has most of.

    A `plain` text has no letters but those of English.
    """
    if plain and _is_plainly_english(text):
        return ENGLISH
    words = _WORD.findall(text)
    scores: Counter[str] = Counter()
    for word in words:
        for name in _TELLING.get(word, ()):
            scores[name] += 2
    english = scores.pop(ENGLISH, 0)
    if english and not scores and plain:
        return ENGLISH
    for word in words:
        if word.endswith(_ANY_END) and (ends := _ENDS.fullmatch(word)) and ends.lastgroup:
            scores[ends.lastgroup] += 1
    if not plain:
        for name, hint in _HINTS:
            scores[name] += 2 * len(hint.findall(text))
        if scores["de"]:
            scores["de"] += len(_UMLAUT.findall(text))
    if not scores:
        return ENGLISH
    name, most = scores.most_common(1)[0]
    enough = 2 if not english and len(words) <= _FEW_WORDS else 4
    return name if most >= enough and most > english else ENGLISH
