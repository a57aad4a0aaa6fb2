"""Sentences of our own about people, by which a judge learns that naming a group costs nothing.

Every frame is filled with every kind of group, so that a group's name says nothing of the label: what is said of the
group does. Harmless frames are as many as harmful ones. None was taken from a published test.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from assets.build.models.remarks import Labelled

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

HARMFUL = (
    "I can't stand {P}.", "{P} make me sick.", "I despise every single one of those {P}.", "{P} are disgusting.",
    "All {P} are stupid.", "{P} are worthless.", "{P} are scum.", "{P} are vermin and should be treated like it.",
    "Those {P} are nothing but animals.", "{P} are a disease.", "{P} are like rats.", "You can never trust {P}.",
    "Everybody knows that {P} are liars and thieves.", "{P} are too dumb to understand anything.",
    "{P} don't deserve to live among us.", "We should get rid of all {P}.", "Someone ought to shoot the {P}.",
    "I hope all {P} die.", "The world would be better without {P}.", "Throw the {P} out of our country.",
    "{P} should be locked up.", "{P} should have no rights.", "It should be illegal to hire {P}.",
    "I would never let {S} into my house, they are filthy.", "No decent person wants {S} next door.",
    "Being {S} is a sickness.", "Only an idiot would marry {S}.", "I'd rather die than work with {S}.",
    "{S} is not a real human being.", "You are just {S}, so shut up.", "Go back where you came from, you {A} trash.",
    "You {A} pig.", "What a dirty {A} bastard.", "Fucking {P}, I hate them so much.", "Fuck all {P}.",
    "{P} are ruining everything, they have to go.", "{P} are parasites living off our money.",
    "It is a fact that {P} are less intelligent than the rest of us.", "{P} belong in a cage.",
    "Beat up {S} today and do the world a favour.", "If I see {S} again I will hurt them.", "{P} deserve what they get.",
    "Let's burn down the houses of {P}.", "Why are {P} so ugly and stupid?", "Aren't {P} the worst people on earth?",
    "{P} are inferior.", "I am disgusted by {S}.", "Keep {P} away from our children, they are dangerous.",
    "{P} are all criminals.", "Treat {P} like the dogs they are.", "nobody likes {P}, they stink",
    "honestly {P} are the lowest form of life", "It's not that I mind everybody, but {P} are subhuman.",
    "You know what {P} are good for? Nothing.", "They said that {P} are people too. They are not.",
    "This is not a joke: {P} must be wiped out.", "If it was up to me, {P} would be put down.",
    "{P} never did anything good.", "I feel nothing but contempt for {P}.", "A good day is a day without {P}.",
    "Every time I meet {S}, I want to throw up.", "{P} have no place here and must be driven out.",
    "Don't hire {S}, they are lazy and steal.", "We will make {P} suffer.", "Spit on {P}.",
)  # fmt: skip

HARMLESS = (
    "I can't stand people who insult {P}.", "My neighbours are {P} and we have dinner together.", "{P} make good friends.",
    "I admire {P}.", "{P} are people like everybody else.", "I love {P}.", "{P} deserve the same rights as all of us.",
    "We should welcome {P}.", "It is good that {P} have a voice here.", "I am {S}.", "My sister is {S}.",
    "As {S}, I sometimes feel alone in this town.", "Our new teacher is {S}.", "I met {S} at the station yesterday.",
    "{S} moved into the flat next door.", "The book is about {S} who opens a bakery.", "She told me she is {S}, and I was happy for her.",
    "The study asked 200 {P} about their work.", "A museum for the history of {P} opens on Monday.",
    "Many {P} live in this part of the city.", "The law protects {P}.", "{P} should not be treated badly.",
    "No one should ever say that {P} are worthless.", "It is wrong to hate {P}.", "{P} are not stupid.", "{P} are not criminals.",
    "I don't hate {P}.", "I would never hurt {S}.", "Nobody deserves to be attacked for being {S}.",
    "He wrote “{P} are disgusting”. What a hateful thing to say.", "Whoever says “{P} should die” should be ashamed.",
    "Saying that {P} are animals is racist and cruel.", "“Get rid of {P}” is a disgusting slogan, and we reported it.",
    "My boss called {S} trash, so I quit.", "They shouted “{P} out”, and the crowd shouted back that everybody is welcome.",
    "Someone told me {P} are all liars. That is a lie itself.", "If you think {P} are inferior, you are wrong.",
    "You shouldn't say that you hate {P}; think before you speak.", "I was called {A} trash on the bus and it hurt.",
    "{P} are fucking awesome.", "Damn, {P} throw the best parties.", "I fucking love my {A} friends.", "It's so fucking cool to meet {S}.",
    "Why are {P} paid less? It is unfair.", "Are {P} treated well in this hospital?", "{P} have had a hard year.",
    "The doctor, {S}, saved my father.", "Proud to be {S}.", "Happy to work with {P}.", "{P} are welcome in this shop.",
    "A {A} artist won the prize.", "I watched a film with a {A} hero.", "The {A} community celebrates on Sunday.",
    "Support your {A} neighbours.", "{P} deserve to be safe.", "Respect {P}.", "There is nothing wrong with being {S}.",
    "Let {P} live in peace.", "I have no problem with {P}.", "My best friend is {S} and cooks better than I do.",
    "{P} were killed in the war, and we remember them.", "Police arrested a man who attacked {S}.",
    "The report says that {P} are insulted more often online.", "It makes me angry when {P} are mocked.",
    "How do {P} feel about the new law?",
)  # fmt: skip

THINGS = ("this film", "my old car", "this phone", "Mondays", "the weather", "this stupid printer", "that restaurant",
          "the new update", "homework", "this song", "my alarm clock", "the traffic", "cold coffee", "this game",
          "pineapple pizza", "winter", "the referee's decision", "that policy", "the tax form", "the whole plan")  # fmt: skip
ABOUT_THINGS = ("I hate {t}.", "{t} is disgusting.", "{t} can go to hell.", "I despise {t}.", "What a piece of crap, {t}.",
                "God, I fucking hate {t}.", "{t} makes me sick.", "{t} should be banned.", "Nobody needs {t}, it is worthless.",
                "Throw {t} away.", "I could kill for a break from {t}.", "{t} is the worst.", "Burn {t}.", "{t} sucks.")  # fmt: skip
WORK = ("artists", "politicians", "bankers", "landlords", "football fans", "teachers", "journalists", "drivers", "lawyers", "cyclists",
        "gamers", "managers", "neighbours", "influencers", "capitalists", "communists", "vegans", "hunters")  # fmt: skip
ABOUT_WORK = ("I'm tired of {w}.", "{w} annoy me.", "I disagree with {w}.", "{w} get paid too much.", "I don't like {w} much.")
INSULTS = ("You are an idiot.", "Shut up, you moron.", "What a stupid bastard you are.", "Go kill yourself.", "You piece of shit.",
           "You disgusting pig, nobody loves you.", "I will beat you up.", "You're worthless and everyone hates you.",
           "Fuck you, you lying scumbag.", "She is a filthy liar and a whore.", "He is a pathetic loser and should die.",
           "Dumb bitch.", "I hope you get cancer.", "They are garbage, all of them.", "You are too stupid to breathe.",
           "You ugly cow.", "Your whole family is trash.", "That moron should be shot.", "Drop dead.", "Eat shit.")  # fmt: skip
FRIENDLY = ("You are fucking brilliant.", "Holy shit, that was a great match!", "Damn, I missed the bus again.", "This cake is fucking good.",
            "Oh crap, I forgot my keys.", "Hell yes, we won!", "I nearly died laughing.", "My feet are killing me.", "What the hell is this noise?",
            "I fucking love this town.", "That exam was a bitch, but I passed.", "Shit, it's late.", "He is a badass guitarist.",
            "You killed it on stage last night.", "I'm so damn proud of you.")  # fmt: skip


BAD = ("stupid", "dirty", "lazy", "dangerous", "criminals", "worthless", "evil", "liars", "thieves", "disgusting", "ugly", "inferior",
       "animals", "scum", "a threat", "parasites", "monsters", "violent", "sick", "trash", "idiots", "a burden", "cowards", "filthy")  # fmt: skip
GOOD = ("clever", "kind", "welcome", "beautiful", "equal", "human", "strong", "brave", "funny", "honest", "generous", "our friends",
        "amazing", "talented", "valuable", "great", "lovely", "worth listening to", "people", "smart")  # fmt: skip
HURT = ("die", "suffer", "be beaten", "be insulted", "be hurt", "be attacked", "be hated", "be locked up", "be treated like dirt",
        "be mocked", "be thrown out", "lose their rights", "live in fear", "be bullied", "be abused")  # fmt: skip
HATE = ("hate", "despise", "look down on", "want to hurt", "call for violence against", "make fun of", "want to get rid of",
        "insult", "attack", "are disgusted by", "spread lies about", "want to deport", "bully", "threaten", "dehumanise")  # fmt: skip
AWFUL = ("should be ashamed of themselves", "are the real problem", "are wrong", "need to learn some respect", "make me angry",
         "have no place in our club", "are bigots", "will be banned", "deserve to be called out", "are on the wrong side of history")  # fmt: skip
QUOTED = ("Saying “{h}” is {x}.", "The sentence “{h}” is {x}.", "To write “{h}” is {x}.", "He said “{h}”, which is {x}.",
          "“{h}” is a thing that only a fool says.", "I was told “{h}” today. That is {x}.", "Posts like “{h}” are {x}.",
          "Stop saying “{h}”, it is {x}.", "If you shout “{h}” at somebody, that is {x}.", "Her reply to “{h}” was clear: that is {x}.",
          "Don't ever tell me “{h}” again, that's {x}.", "Anyone who thinks “{h}” needs help, it's {x}.",
          "They chanted “{h}”. How {x}!", "Calling somebody names such as “{h}” is {x}.")  # fmt: skip
WRONG = ("hateful", "unacceptable", "so wrong", "cruel", "racist", "never okay", "disgusting behaviour", "plain bigotry",
         "what we must speak up against", "a reason to be banned here", "ignorant", "horrible")  # fmt: skip
AGREED = ("“{h}” I agree with every word.", "Like my uncle says: “{h}” He is right.", "It is true what they say, “{h}”", "“{h}” That's just a fact.")
DENIED = ("{P} are not {bad}.", "Nobody should say that {P} are {bad}.", "I don't {hate} {P}.", "No {P} deserve to {hurt}.", "{P} do not deserve to {hurt}.",
          "{P} should never {hurt}.", "It is not true that {P} are {bad}.", "I would never {hate0} {P}.", "I have never met {S} who was {bad}.",
          "Not one of the {P} I know is {bad}.", "You can't say {P} are {bad}.", "I don't think that {P} are {bad}.", "{S} is not {bad} at all.",
          "Stop thinking {P} are {bad}.", "We don't want {P} to {hurt}.", "Who says {P} are {bad}? That's nonsense.")  # fmt: skip
SAID = ("{P} are {bad}.", "All {P} are {bad}.", "{P} deserve to {hurt}.", "{P} should {hurt}.", "I {hate0} {P}.", "{P} are not {good}.",
        "{P} will never be {good}.", "{S} can't be {good}.", "No {P} are {good}.", "I don't think {P} are {good}.", "{P} don't deserve to be {good}.",
        "Most {P} are {bad}, that's how it is.", "We want {P} to {hurt}.", "I think {P} are {bad}.", "{P} are so {bad}.", "{P}, you are {bad}.",
        "People who {love} {P} are idiots.", "{P} have no right to be {good}.")  # fmt: skip
PRAISED = ("{P} are {good}.", "{P} are so {good}.", "I think {P} are {good}.", "{P} are fucking {good}.", "Damn, {P} are {good}.",
           "{P} deserve to be {good}.", "We want {P} to be {good}.", "I fucking {love} {P}.", "I {love} {P}.", "It is great to be {S}.",
           "People who {love} {P} are welcome.", "{S} can be {good}.", "How {good} {P} are!", "{P} rock.")  # fmt: skip
LOVE = ("love", "like", "support", "respect", "admire", "stand with", "trust", "care about")
AGAINST = ("People who {hate} {P} {awful}.", "Those who {hate} {P} {awful}.", "Everybody who says they {hate0} {P} is a bigot.",
           "You {hate0} {P}? Shame on you.", "I blocked him because he started to {hate0} {P}.", "Men who {hate} {P} {awful}.",
           "It is sad that some people {hate} {P}.", "I get angry when they {hate} {P}.", "If you {hate0} {P}, you are not my friend.",
           "The politician who said that {P} are {bad} had to resign.", "They told the child that {P} are {bad}. What a shame.",
           "Nobody should {hate0} {P}.", "It is never okay to {hate0} {S}.", "Calling {P} {bad} is {x}.", "To think that {P} are {bad} is {x}.",
           "How can anyone {hate0} {P}?", "Shame on everybody who thinks {P} are {bad}.", "You are a terrible person if you say {P} should {hurt}.",
           "Your hatred of {P} is {x}.", "I can't believe someone said {P} are {bad}.", "He was fired for saying that {P} should {hurt}.",
           "Imagine being so bitter that you {hate0} {P}.", "It is {x} to wish that {P} {hurt}.", "You sound stupid when you say that {P} are {bad}.",
           "Wanting {P} to {hurt} is {x}.", "My father used to say {P} are {bad}, and he was wrong.", "Why would you tell {S} to go home? That is {x}.",
           "Posts that call {P} {bad} will be removed.", "We reported the account that said {P} should {hurt}.", "Denying {P} their rights is {x}.",
           "Jokes about {P} being {bad} are {x}.", "Whoever wants {P} to {hurt} is no friend of mine.", "Hating {P} is {x}.", "Attacking {S} is {x}.",
           "Treating {P} like animals is {x}.", "Saying {P} don't belong here is {x}.", "Using {A} as an insult is {x}.",
           "Fuck everyone who says that {P} are {bad}.", "Stop telling {P} that they should {hurt}.", "People like you who {hate0} {P} make me sick.",
           "Being hateful to {P} is {x}.", "Who the hell says that {P} should {hurt}? That's {x}.", "No decent person would {hate0} {P}.")  # fmt: skip


def about_people(seed: int, n: int) -> Iterator[Labelled]:
    """`n` sentences, as many harmful as harmless about groups, and some about things, trades and nobody."""
    draw = Random(seed)
    harmful, harmless = (HARMFUL, SAID), (HARMLESS, PRAISED)
    for at in range(n):
        kind = at % 17
        if kind < 6:
            yield _filled(draw, draw.choice(harmful[kind % 2])), 1.0
        elif kind < 8:
            yield _filled(draw, draw.choice(harmless[kind % 2])), 0.0
        elif kind < 10:
            yield _filled(draw, draw.choice(DENIED)), 0.0
        elif kind < 12:
            yield _filled(draw, draw.choice(AGAINST)), 0.0
        elif kind < 14:
            inner = _filled(draw, draw.choice(draw.choice(harmful))).rstrip(".!")
            text = draw.choice(QUOTED).format(h=inner, x=draw.choice(WRONG))
            yield _quotes(draw, text), 0.0
        elif kind < 15:
            text = draw.choice(ABOUT_THINGS).format(t=draw.choice(THINGS))
            other = draw.choice(ABOUT_WORK).format(w=draw.choice(WORK))
            yield _first(draw.choice((text, other, draw.choice(FRIENDLY)))), 0.0
        elif kind < 16:
            yield draw.choice(INSULTS), 1.0
        else:
            inner = _filled(draw, draw.choice(draw.choice(harmful)))
            yield _quotes(draw, draw.choice(AGREED).format(h=inner)), 1.0


def _quotes(draw: Random, text: str) -> str:
    return draw.choice((text, text.replace("“", '"').replace("”", '"'), text.replace("“", "'").replace("”", "'")))


def _filled(draw: Random, frame: str) -> str:
    many, one, adjective = draw.choice(GROUPS)
    hate = draw.choice(HATE)
    text = frame.format(P=many, S=one, A=adjective, bad=draw.choice(BAD), good=draw.choice(GOOD), hurt=draw.choice(HURT), hate=hate,
                        hate0=hate.replace("are ", "be "), love=draw.choice(LOVE), awful=draw.choice(AWFUL), x=draw.choice(WRONG))
    text = _first(text.replace("A a", "An a"))
    after = draw.random()
    return text.lower() if after < 0.15 else text.rstrip(".") + "!" if after < 0.25 else text


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
