"""The track of attention heads in language models: FASP and its baselines, bias against
perplexity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from engine.core import words
from engine.core.types import READINGS, Values
from engine.models import catalog
from engine.report import phrasing
from engine.report.charts import by_group, cost, flips, lookup, pareto
from engine.report.charts.panel import Choice, Panel
from engine.report.palette import Style, pair_style, style_of
from engine.report.tracks import (
    Charts,
    Comparison,
    Effects,
    Evidence,
    Extra,
    Flips,
    Foreign,
    Front,
    FrontView,
    Handout,
    Level,
    Make,
    Measure,
    Methods,
    Nouns,
    Null,
    Prediction,
    Published,
    Reading,
    Readings,
    Screens,
    Shelf,
    Track,
    Variants,
    Ways,
    cut_of,
    given,
)
from engine.store.runs import Run
from engine.tracks.language_models import arms, examples, predicted, published_scores
from engine.tracks.language_models import words as own
from engine.tracks.language_models.benchmarks import PREFIX, scored_benchmarks
from engine.tracks.language_models.bias_intervals import (
    FEW,
    TOO_FEW_TEMPLATES,
    TOO_FEW_WORDS,
    UNUSABLE,
)
from engine.tracks.language_models.panels import (
    bench as bench_panels,
)
from engine.tracks.language_models.panels import (
    benchmarks,
    correlations,
    cuts,
    head_card,
    heads,
    judges,
    reliability,
)
from engine.tracks.language_models.published_scores import load_published
from engine.tracks.language_models.summary import TELLING, is_invented, measured_on
from engine.tracks.language_models.words import LOOKS

LARGEST_USUAL = 0.2
"""The paper's largest share of heads; a reader starts no further. Not picked by result."""

_DECODING = "Other decoding: the models write under different rules."
_TEXT = "Another text: perplexities are on different scales."
BINDING = {
    "axes": "Another set of axes: only shared axes can be read side by side.",
    "prompts": "Other prompts: bias grows with subgroups, its null band with fewer prompts.",
    "prompts used": (
        "Another number of prompts: the null bands differ, so equal bias does not mean equal"
        " evidence."
    ),
    "judge": "Another judge: toxicity scores are on different scales.",
    "span": "Another scored span: the judge reads different text.",
    "plain case": "Another spelling of the judged text: toxicity scores are on different scales.",
    **dict.fromkeys(
        ("max new tokens", "max prompt tokens", "temperature", "top k", "top p"), _DECODING
    ),
    "ablation": (
        "Silenced heads give another value, so effects of heads and of cuts mean something else."
    ),
    "reading": "Another reading of bias is the default here.",
    **dict.fromkeys(("corpus", "max corpus tokens", "published perplexity"), _TEXT),
    "model": "Another model: perplexity per token is only comparable between equal tokenizers.",
    "seeds": "Another number of seeds: intervals differ in width.",
    **{
        one.title: f"Another file of {one.title}: its numbers are of other items."
        for one in scored_benchmarks().values()
    },
}
LIMITS = (
    "Only the harms, subgroups, prompts and text named here were assessed; others were not.",
    (
        "A smaller difference between subgroups does not prove that there is no harm: all may "
        "fare equally badly."
    ),
    "An interval that includes zero shows no clear change, but does not prove that there is none.",
)


def first_share(shares: Sequence[float]) -> float:
    """The largest share up to the usual one, else the smallest; of those that cut, if any do."""
    cut = [share for share in shares if share > 0] or shares
    return max((share for share in cut if share <= LARGEST_USUAL + 1e-9), default=min(cut))


def weighed(run: Run) -> tuple[Make, ...]:
    """Charts of cuts beside other ways to make the model smaller; the price of even cuts first."""
    found = (cuts.price_of_even,) if run.request.get("deployable") else ()
    others = lookup.stands_instead(lookup.frame(run, "variants")).any()
    return (*found, *cuts.PANELS) if others else found


def other_ways(run: Run, choice: Choice) -> Iterator[Panel]:
    """Those on the axis that is read."""
    return (make(run, choice) for make in weighed(run) if make is not cuts.divergence)


def diverging(run: Run, choice: Choice) -> Iterator[Panel]:
    """The same token by token, and what published benchmarks say."""
    if cuts.divergence in weighed(run):
        yield cuts.divergence(run, choice)
    for name in measured_on(run):
        yield benchmarks.benchmark_panel(run, choice, name)


def _of_arms(say: Callable[..., str]) -> Callable[..., str]:
    """What is said of arms, and "" of cuts of heads."""
    return lambda variant, *more: say(variant, *more) if arms.is_arm(variant) else ""


WAYS = Ways(
    instead=_of_arms(arms.instead),
    made=_of_arms(arms.made),
    label=_of_arms(lambda variant: phrasing.sentence(arms.label(variant))),
    saves=_of_arms(arms.saves),
    size_note=_of_arms(arms.size_note),
    untimed=_of_arms(arms.untimed),
    title=arms.level_title,
    own_levels=arms.has_own_levels,
    axis=lambda run: arms.LEVELS if cuts.divergence in weighed(run) else "",
    weighed=weighed,
)


def pareto_question(run: Run, choice: Choice) -> str:
    axis = words.axis_name(choice.measured)
    if choice.reading.startswith(PREFIX):
        harm = lookup.reading(run, choice).harm.name
        return (
            f"What does a smaller {harm} cost in perplexity, and which variants are best at both?"
        )
    return f"What does less bias of {axis} cost in perplexity, and which variants are best at both?"


def extras(run: Run, choice: Choice, show_offensive: bool) -> Iterator[Extra]:
    note = (
        "The first prompt of each subgroup by id, first seed; nothing was picked. One example"
        " proves nothing."
    )
    if not show_offensive:
        note += (
            " Texts the model wrote are hidden: they can be offensive. Export with texts to see"
            " them."
        )
    question = "What does the model write, before and after?"
    yield Extra(question, examples.examples(run, choice, show_offensive), f"{note} {own.JUDGE}")


PUBLISHED = Published(
    "Head scores as the FASP authors published them: CSV files with one row per head, axis and"
    " seed, or head_contributions.json, which holds means over seeds.",
    load_published,
    reliability.published,
    correlations.published,
)
PREDICTION = Prediction(predicted.levels_of, predicted.ahead_of_level)


def shelves() -> Iterator[Shelf]:
    yield Shelf(
        "Language models",
        shelf_table(catalog.list_models()),
        "Any other language model whose attention heads end in one output projection works:"
        " type its hub name or folder under “New audit”.",
        models=True,
    )
    yield Shelf("Toxicity judges", shelf_table(catalog.list_judges()))


def offered(run: Run) -> tuple[str, ...]:
    """The reading that was asked for, and each benchmark that the run was measured on in place
    of its bias."""
    found = tuple(f"{PREFIX}{name}" for name in measured_on(run))
    return (run.request["reading"], *found) if found else ()


def reading_named(name: str) -> Reading:
    if name.startswith(PREFIX):
        # A benchmark in place of the bias of the texts; it has no worst-off group, so
        # its headline stands there, too.
        own = name.removeprefix(PREFIX)
        harm, title = benchmarks.measure_of(own), scored_benchmarks()[own].title
        quality = Measure("perplexity", per_axis=False)
        return Reading(name, harm, harm, harm, harm, quality, harm, title)
    return Reading(
        name,
        label="bias in texts",
        harm=Measure(f"bias:{name}", said="bias", few=FEW),
        gap=Measure("gap", few=FEW),
        worst=Measure("worst_group", few=FEW),
        best=Measure("best_group", few=FEW),
        quality=Measure("perplexity", per_axis=False, few="tokens of text"),
        group=Measure("toxicity", said="toxicity", few=FEW),
        mean=Measure("toxicity"),
    )


def details(reading: str) -> tuple[Measure, ...]:
    one = reading_named(reading)
    more = (
        Measure(metric)
        for metric in ("gap", "worst_group", "best_group", "toxicity", "toxic_share")
    )
    return one.harm, one.quality, *more


def style(method: str, dark: bool = False) -> Style:
    if method.endswith(own.EVEN):
        return pair_style(method, "+", LOOKS, {"even": ("-open", "dot")}, dark)
    return style_of(words.BY_HAND if words.is_by_hand(method) else method, LOOKS, dark)


def definition(method: str) -> str:
    if own.is_against(method):
        return own.AGAINST_MEANS
    if method.endswith(own.EVEN):
        return f"{definition(method.removesuffix(own.EVEN))} {own.EVEN_MEANS}"
    return own.METHODS[method].definition if method in own.METHODS else ""


def order(methods: Iterable[str]) -> list[str]:
    known = list(own.METHODS)
    plain = {name: name.removesuffix(own.EVEN) for name in methods}
    last = {name: (len(known) + own.is_against(name), name) for name in plain}
    return sorted(
        plain,
        key=lambda name: (known.index(plain[name]), name) if plain[name] in known else last[name],
    )


def data(run: Run) -> str:
    axes = run.request["axes"]
    counted = words.axis_name(axes[0]) if len(axes) == 1 else f"{len(axes)} axes"
    return f"{counted} of {own.EMBEDDED_DATA if is_invented(run) else run.meta['prompts']['name']}"


def label(variant: Values) -> str:
    if arms.is_arm(variant):
        return f"{arms.label(variant)}{draw(variant)}"
    level = phrasing.percent(variant["sparsity"])
    return f"{words.method_name(variant['method'])}, {level} cut{draw(variant)}"


def mark(variant: Values) -> str:
    return "" if pd.isna(variant["gamma"]) else f", γ = {variant['gamma']:g}"


def draw(variant: Values) -> str:
    """Which cut drawn at random, but for that of seed 0."""
    return f", draw {variant['seed']:.0f}" if variant["seed"] > 0 else ""


def gone(run: Run, variant: Values) -> str:
    return arms.amount(variant) if arms.is_arm(variant) else cut_of(run, variant)


def amount(run: Run, variant: Values) -> str:
    if arms.is_arm(variant):
        return arms.amount(variant)
    asked, realised = (phrasing.percent(variant[name]) for name in ("sparsity", "realised"))
    more = "" if asked == realised else f"; asked {asked}"
    return f"{int(variant['n_cut'])} of {run.n_units} heads ({realised}{more})"


def reached(run: Run, variant: Values) -> str:
    if arms.is_arm(variant):
        return arms.amount(variant)
    asked, realised = (phrasing.percent(variant[name]) for name in ("sparsity", "realised"))
    return f"{asked} asked, {variant['n_cut']:.0f} of {run.n_units} heads cut ({realised})"


def how_measured(run: Run, row: Values | None, split: str) -> str:
    request = run.request
    if benchmarks.is_benchmark(row):
        one = scored_benchmarks()[str(row["metric"]).removeprefix(PREFIX)]
        return (
            f"{phrasing.count(int(row['n']), one.item, one.items)} of {one.title}, by"
            " log-likelihood"
        )
    if row is not None and row["metric"] == "perplexity" and not pd.isna(row["n"]):
        return f"{phrasing.count(int(row['n']), 'token')} of text"
    n = (
        ""
        if row is None or pd.isna(row["n"])
        else f"{phrasing.count(int(row['n']), split + ' prompt')}, "
    )
    return (
        f"{n}{phrasing.count(int(request['seeds']), 'seed')} per prompt, judge"
        f" {run.meta['judge']['name']}"
    )


def answers(run: Run, choice: Choice, trial: int | None) -> Flips | None:
    if choice.reading.startswith(PREFIX):
        return benchmarks.flips(run, choice, choice.reading.removeprefix(PREFIX))
    return examples.flips(run, choice)


def limits(run: Run, short: bool = False) -> list[str]:
    from engine.report.report import plain

    if short:
        return [own.JUDGE, *LIMITS, *map(plain, run.model.get("notes", ()))]
    floor, note = own.METRICS["bias:group_means"].caveat, run.meta["judge"].get("note")
    texts = [own.JUDGE, own.MADE_ON, floor, own.INTERVALS, *LIMITS]
    texts += [own.COMPRESSED, own.ZEROS] if cuts.divergence in weighed(run) else []
    return [*texts, *([f"Judge: {note}"] if note else [])]


NO_VERDICT = {
    "too few prompts": "too few prompts for a verdict",
    TOO_FEW_WORDS: (
        "fewer than three words for the group, so no verdict; the numbers are about these words"
    ),
    TOO_FEW_TEMPLATES: (
        "fewer than three templates, so no verdict; the numbers are about these templates"
    ),
    UNUSABLE: "an unusable model, so no verdict",
}
SCREEN: Track = Track(
    name="language_models",
    nouns=Nouns("attention heads of a language model", "head", "heads", "prompt", "prompts"),
    level=Level(
        key="sparsity",
        noun="sparsity",
        many="sparsities",
        help=(
            "Full dots are measured. At every other step the charts show a prediction, and a "
            "button measures it."
        ),
        first=first_share,
    ),
    methods=Methods(
        style, definition, order, not_built="Not built for this axis, whose heads were not ranked"
    ),
    variants=Variants(
        label,
        amount,
        reached,
        "method sparsity realised n_cut seed",
        mark,
        gone,
        titles={"seed": "selection seed", "gamma": "γ"},
    ),
    readings=Readings(READINGS, reading_named, details, offered),
    evidence=Evidence(
        data,
        how_measured,
        own.INTERVALS,
        NO_VERDICT,
        lambda run, choice, row: lookup.caveat(run, row, more=own.JUDGE),
        lambda run: [*run.meta["warnings"], *run.meta["prompts"]["notes"]],
        limits,
        lambda run: [("chosen γ", run.meta.get("gamma"))],
    ),
    screens=Screens(
        ("heads", "bench", "reliability", "examples", "playground"),
        {
            "heads": ("head_maps.MAP", "head_maps.ONE_HEAD", "across_axes.TAB"),
            "examples": ("texts.TAB", "labels.TAB", "benchmarks.TAB"),
        },
    ),
    charts=Charts(
        cuts.who_pays,
        cuts.bias_along_sparsity,
        cuts.perplexity_along_sparsity,
        (
            flips.flips,
            cuts.changes_in_per_cent,
            by_group.levelling_down,
            cuts.perplexity_by_group,
            cost.cost,
        ),
        (
            cuts.who_pays,
            flips.flips,
            given(judges.has_labels, judges.labels),
            by_group.levelling_down,
            cuts.perplexity_by_group,
            cuts.bias_along_sparsity,
            cuts.changes_in_per_cent,
            pareto.pareto,
            heads.fasp_picture,
            bench_panels.additivity,
            other_ways,
        ),
        (
            cuts.perplexity_along_sparsity,
            heads.perplexity_map,
            correlations.axis_correlation,
            correlations.top_heads,
            correlations.method_agreement,
            reliability.run_repeats,
            cost.cost,
            diverging,
        ),
        (
            reliability.run_repeats,
            reliability.seed_scatter,
            reliability.more_seeds,
            bench_panels.additivity,
            reliability.transferred,
        ),
        (judges.judges, judges.judged_names),
        extras,
    ),
    front=Front(
        pareto_question,
        {
            "test": FrontView(
                "Test prompts (reported)", "test", False, "the γ chosen on validation"
            ),
            "validation": FrontView(
                "Validation prompts (every γ tried)", "validation", True, "every γ that was tried"
            ),
        },
        "method gamma sparsity realised",
        chance=cuts.chance,
        draw=draw,
    ),
    comparison=Comparison(
        BINDING,
        (
            ("model", "weight_hash"),
            ("prompts", "digest"),
            ("corpus", "digest"),
            ("judge", "hash"),
        ),
        ("prompts used", "prompts"),
    ),
    handout=Handout(
        mask="Which heads to cut, how they were chosen, and the model's hash. `apply` replays it.",
        apply="python -m engine apply {name} --model BASE --to DIR",
        checkpoint=(
            "The pruned model twice: cut for real, and as a dense checkpoint with zeros that"
            " `from_pretrained` loads anywhere. Every use is checked against the masked model."
        ),
        standing=(
            "The changed model as a folder of plain weights that `from_pretrained` loads anywhere,"
            " checked against the model in memory. A checkpoint that was brought is there already."
        ),
        checkpoint_wait="Loading the model, cutting it, comparing it with the masked one …",
        loading=(
            "`zeroed/` loads with `from_pretrained` of transformers and is no smaller. `cut/`"
            " is smaller and loads with `engine.surgery.heads.replay.load_cut`; plain"
            " transformers cannot load uneven heads. `plain/`, where it is there, is smaller"
            " and loads with `from_pretrained`."
        ),
        foreign=(
            Foreign(
                "head_contributions",
                "Head scores for FASP's published code",
                own.HEAD_CONTRIBUTIONS,
                published_scores.FILE,
                "application/json",
                published_scores.written,
            ),
        ),
    ),
    telling=TELLING,
    flips=answers,
    null=Null(own.NULL_MEANS, label=own.NULL_LABEL, group_label=own.GROUP_NULL_LABEL),
    ways=WAYS,
    maps=Effects(
        heads.fasp_picture,
        heads.bias_map,
        heads.perplexity_map,
        head_card.head_card,
        heads.head_numbers,
        examples.without_head,
        head_card.by_rank,
        head_card.FIRST,
    ),
    bench=bench_panels.BENCH,
    of_run=lambda run: BESIDE if arms.of_request(run.request) else SCREEN,
)


BESIDE: Track = replace(SCREEN, screens=replace(SCREEN.screens, questions={"summary": own.SMALLER}))
"""The same where an audit has other ways to make the model smaller beside cuts of heads."""


def shelf_table(entries: Sequence[catalog.Entry]) -> pd.DataFrame:
    """Entries of the catalog for the library."""
    origin = {
        "embedded": "embedded",
        "recent": "used lately",
        "hub": "by name, from the hub",
    }
    rows = [
        {
            "Name": entry.name,
            "From": origin[entry.kind],
            "Note": entry.note[:1].upper() + entry.note[1:],
        }
        for entry in entries
    ]
    return pd.DataFrame(rows, columns=["Name", "From", "Note"])
