"""Sentences of our own about people, by which a judge learns that naming a group costs nothing.

Frames stand in about_people.txt. Every frame is filled with every kind of group, so that a group's name says nothing of
the label: what is said of the group does. Harmless ones are somewhat more than harmful ones. None was taken from a
published test, and sentences that have the words of one, groups aside, are left out (`skeleton`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from random import Random

from assets.build.models.remarks import Labelled

FRAMES = Path(__file__).with_name("about_people.txt")

GROUPS: tuple[tuple[str, str, str], ...] = (
    # many, one of them (with its article), as an adjective
    ("women", "a woman", "female"),
    ("men", "a man", "male"),
    ("girls", "a girl", "female"),
    ("boys", "a boy", "male"),
    ("mothers", "a mother", "female"),
    ("trans people", "a trans person", "trans"),
    ("trans women", "a trans woman", "trans"),
    ("trans men", "a trans man", "trans"),
    ("transgender people", "a transgender person", "transgender"),
    ("non-binary people", "a non-binary person", "non-binary"),
    ("gay people", "a gay person", "gay"),
    ("gays", "a gay guy", "gay"),
    ("gay men", "a gay man", "gay"),
    ("lesbians", "a lesbian", "lesbian"),
    ("bisexual people", "a bisexual person", "bisexual"),
    ("homosexuals", "a homosexual", "homosexual"),
    ("straight people", "a straight person", "straight"),
    ("black people", "a black person", "black"),
    ("black women", "a black woman", "black"),
    ("African Americans", "an African American", "African American"),
    ("Africans", "an African", "African"),
    ("white people", "a white person", "white"),
    ("Asian people", "an Asian person", "Asian"),
    ("Chinese people", "a Chinese person", "Chinese"),
    ("Mexicans", "a Mexican", "Mexican"),
    ("Latinos", "a Latino", "Latino"),
    ("Native Americans", "a Native American", "Native American"),
    ("Nigerians", "a Nigerian", "Nigerian"),
    ("Germans", "a German", "German"),
    ("Americans", "an American", "American"),
    ("Indians", "an Indian", "Indian"),
    ("Arabs", "an Arab", "Arab"),
    ("Roma people", "a Roma person", "Roma"),
    ("immigrants", "an immigrant", "immigrant"),
    ("migrants", "a migrant", "migrant"),
    ("refugees", "a refugee", "refugee"),
    ("foreigners", "a foreigner", "foreign"),
    ("asylum seekers", "an asylum seeker", "foreign"),
    ("disabled people", "a disabled person", "disabled"),
    ("people with disabilities", "a person with a disability", "disabled"),
    ("blind people", "a blind person", "blind"),
    ("deaf people", "a deaf person", "deaf"),
    ("autistic people", "an autistic person", "autistic"),
    ("wheelchair users", "a wheelchair user", "disabled"),
    ("Muslims", "a Muslim", "Muslim"),
    ("Muslim women", "a Muslim woman", "Muslim"),
    ("Jews", "a Jew", "Jewish"),
    ("Jewish people", "a Jewish person", "Jewish"),
    ("Christians", "a Christian", "Christian"),
    ("Catholics", "a Catholic", "Catholic"),
    ("Hindus", "a Hindu", "Hindu"),
    ("Sikhs", "a Sikh", "Sikh"),
    ("Buddhists", "a Buddhist", "Buddhist"),
    ("atheists", "an atheist", "atheist"),
    ("old people", "an old person", "old"),
    ("poor people", "a poor person", "poor"),
    ("fat people", "a fat person", "fat"),
)

ABUSE = (
    "bitch:bitches", "slut:sluts", "whore:whores", "tranny:trannies", "shemale:shemales", "faggot:faggots", "fag:fags",
    "dyke:dykes", "queer:queers", "homo:homos", "nigger:niggers", "coon:coons", "retard:retards", "cripple:cripples",
    "spastic:spastics", "muzzie:muzzies", "raghead:ragheads", "wetback:wetbacks", "kike:kikes", "chink:chinks",
    "spic:spics", "gook:gooks", "gyppo:gyppos", "paki:pakis",
)  # fmt: skip
PRIDE = ("queer:queers", "dyke:dykes", "fag:fags", "faggot:faggots", "homo:homos", "bitch:bitches", "slut:sluts", "nigga:niggas",
         "tranny:trannies", "crip:crips", "cripple:cripples", "mad bitch:mad bitches", "black queer:black queers",
         "trans dyke:trans dykes", "nigger:niggers")  # fmt: skip
SHARES = {
    "harmful derogation": 8, "harmful dehumanising": 4, "harmful exclusion": 5, "harmful threats": 4, "harmful slurs": 2,
    "harmful insults": 2, "harmful agreed": 2, "harmless positive": 6, "harmless neutral": 5, "harmless rights": 4,
    "harmless denied": 5, "harmless counter": 8, "harmless reclaimed": 3, "harmless homonyms": 1, "harmless profanity": 2,
    "harmless things": 2,
}  # fmt: skip
QUOTABLE = ("harmful derogation", "harmful dehumanising", "harmful exclusion", "harmful threats")
BEFORE = ("Honestly, ", "Look, ", "Listen: ", "Just saying: ", "You know what? ", "By the way, ", "Well, ", "I'll say it again: ",
          "My view: ", "Friends, ", "Dear all, ", "Today's thought: ")  # fmt: skip
AFTER = (" That's all.", " Good night.", " Just my opinion.", " Read that again.", " lol", " Period.", " Have a nice day.", " Full stop.")
LEET = str.maketrans("aeios", "43105")


@cache
def frames() -> dict[str, list[str]]:
    """The frames of about_people.txt by the name of their list."""
    found: dict[str, list[str]] = {}
    for line in FRAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


def about_people(seed: int, n: int, shut: Collection[str] = frozenset()) -> Iterator[Labelled]:
    """`n` sentences with their labels, none with a skeleton of `shut`."""
    draw = Random(seed)
    while n:
        kind = draw.choices(list(SHARES), list(SHARES.values()))[0]
        plain = _filled(draw, draw.choice(frames()[kind]))
        if skeleton(plain) not in shut:
            n -= 1
            yield _as_typed(draw, plain), float(kind.startswith("harmful"))


def skeleton(text: str) -> str:
    """What a sentence says, whoever it says it of: words only, groups and words of abuse alike, articles before them gone."""
    return re.sub(r"\b(?:an? )?(?:GROUP)(?: GROUP)*\b", "GROUP", _named().sub("GROUP", words_of(text)))


def words_of(text: str) -> str:
    """Its words, marks and capitals aside."""
    return " ".join(re.findall(r"\w+", text.lower()))


@cache
def _named() -> re.Pattern[str]:
    """Every way to name a group here; the longest first. A template's [IDENTITY_P] and [SLUR_S] are names, too."""
    ones = {re.sub("^an? ", "", one) for _, one, _ in GROUPS}
    names = ones | {many for many, _, _ in GROUPS} | {adjective for _, _, adjective in GROUPS}
    names |= {word for pair in (*ABUSE, *PRIDE) for word in pair.split(":")}
    spelt = sorted((words_of(name) for name in names), key=len, reverse=True)
    return re.compile(rf"\b(?:(?:identity|slur)_\w+|{'|'.join(spelt)})\b")


def _filled(draw: Random, frame: str) -> str:
    many, one, adjective = draw.choice(GROUPS)
    slur, slurs = draw.choice(ABUSE).split(":")
    pride, prides = draw.choice(PRIDE).split(":")
    word = {name: draw.choice(frames()[f"words {name}"]) for name in ("bad", "good", "hurt", "hate", "scold", "love")}
    said = _filled(draw, draw.choice(frames()[draw.choice(QUOTABLE)])) if "{say}" in frame else ""
    if "“{say}”" in frame:
        left, right = draw.choice(("“”", '""', "''"))
        frame, said = frame.replace("“", left).replace("”", right), said.rstrip(".")
    # "every" and "the next" take no article: {S} brings one.
    frame = re.sub(r"\b(every|the next|only|an?|no|typical) \{S\}", r"\1 {N}", frame)
    text = frame.format(P=many, S=one, N=re.sub("^an? ", "", one), A=adjective, SLUR=slur, SLURS=slurs, PRIDE=pride, PRIDES=prides,
                        say=said, **word)  # fmt: skip
    text = re.sub(r"\ban? (?=[aeiou])", "an ", text, flags=re.IGNORECASE)
    text = re.sub(r"\ban (?=[^aeiou])", "a ", text, flags=re.IGNORECASE)
    text = text[:1].upper() + text[1:]
    return text if text[-1] in ".?!" else f"{text}."


def _as_typed(draw: Random, text: str) -> str:
    """The sentence as people type it: with words before or after, in small letters, misspelt. The label stays."""
    if draw.random() < 0.15:
        opening = draw.choice(BEFORE)
        text = opening + (text if opening.rstrip()[-1] in "?" or text.startswith("I") else text[:1].lower() + text[1:])
    if draw.random() < 0.1:
        text += draw.choice(AFTER)
    how = draw.random()
    if how < 0.15:
        return text.lower()
    if how < 0.25:
        return text.rstrip(".") + "!"
    if how < 0.30:
        at = draw.randrange(len(text))
        return text[:at] + text[at + 1 :]
    if how < 0.33:
        words = text.split(" ")
        at = max(range(len(words)), key=lambda place: len(words[place]))
        words[at] = draw.choice((words[at].translate(LEET), " ".join(words[at])))
        return " ".join(words)
    return text
