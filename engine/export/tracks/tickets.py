"""The track of attention heads in text classifiers: importance by conductance and others, winning tickets, who pays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine import words
from engine.errors import Fault, RequestError
from engine.export import say
from engine.export.palette import Style, ticket_style
from engine.export.panels import (
    classifier_groups,
    cost,
    levelling,
    lookup,
    pareto,
    tickets_agree,
    tickets_along,
    tickets_curve,
    tickets_groups,
    tickets_headline,
    tickets_help,
    tickets_importance,
    tickets_iterations,
    tickets_survival,
    tickets_table,
)
from engine.export.panels.base import Choice, Panel
from engine.export.panels.tickets_lookup import arm_of, few_seeds, label_of, seeds_said
from engine.export.text_masks import write_text_mask
from engine.export.tracks.base import Handout, Level, Maps, Measure, Overview, Reading, Shelf, Track, View
from engine.models import catalog
from engine.store.runs import Run

_TRAINING = "Other training: what a cut costs depends on how the model was fine-tuned."
_SCORING = "Heads were scored in another way: the same name, other heads."
BINDING = {
    "axes": "Another set of axes: only shared axes can be read side by side.",
    "data": "Other texts: levels are not on one scale, and the null bands differ.",
    "texts used": "Another number of texts per subgroup: intervals and null bands differ in width.",
    "max length": "Texts are cut off at another length.",
    "model": "Another model: compare changes, not levels.",
    "pretrained": "Pre-trained weights of another name: where they are others, a winning ticket here is none there.",
    **dict.fromkeys(("tune", "retune"), _TRAINING),
    **dict.fromkeys(("step", "score settings", "score texts"), _SCORING),
    "trials": "Another number of seeds: intervals and standard deviations, and so tickets, differ.",
}
LIMITS = (
    "Only the harms, subgroups and texts named here were assessed; others were not.",
    "A smaller gap between subgroups is not proof of no harm, and can mean that all fare equally badly.",
    "An interval that includes zero shows no change, but does not show that there is none.",
    "A winning ticket is no better than its definition: mean and standard deviation over few seeds, on one test set.",
)
FEW_ARMS = 6
"""Arms up to which every comparison shows all of them."""
AUC_LIMIT = "AUC needs texts of both classes: a subgroup with one class only has none, and is left out of gaps."
TEXTS = (
    "Off: the report and the tables hold no words of the texts. They can be offensive, and belong to those who "
    "wrote them."
)


def middle(levels: Sequence[float]) -> float:
    """The middle one of the shares above 0, the smaller of two; 0 where there is none."""
    cut = sorted(level for level in levels if level > 0)
    return cut[(len(cut) - 1) // 2] if cut else 0.0


class Tickets(Track):
    """Attention heads of a text classifier; an arm is a procedure with a score, run with several seeds."""

    name = "tickets"
    about = "attention heads of a text classifier"
    one, many = "head", "heads"
    item, items = "text", "texts"
    whole, repeat = "full model", "seed"
    level = Level(
        key="share",
        noun="share of heads",
        many="shares of heads",
        column="sparsity",
        realised="realised",
        asked="sparsities",
        none=0.0,
        title="Sparsity (share of heads cut)",
        axis="share of heads cut",
        help="Every step is a finished variant; 0 % is the full model. The Library starts a new one.",
        say=say.percent,
        first=middle,
    )
    pages = ("tickets", "lens")
    also = ("head_scores", "reliability")
    questions = {
        "overview": "If we cut these heads, who pays, and how sure are we?",
        "head_scores": "Which heads attend to what decides?",
        "reliability": "Would the importance of heads come out again?",
        "pareto": "What does a smaller gap between subgroups cost?",
        "library": "Which models, texts and runs are here?",
    }
    readings = ("accuracy", "auc", "matthews")
    offered = ("accuracy", "auc")
    line_labels = False
    flag_symbol = "x"
    fronts_at_level = True
    views = {
        "test": View("Mean of seeds (reported)", "test", False, "the mean over seeds"),
        "trials": View("Every seed", "test", True, "every seed beside the means"),
    }
    binding = BINDING
    parts = (("model", "weight_hash"), ("data", "digest"))
    counted = ("texts used", "data")
    columns = {
        "method": "method",
        "sparsity": "share asked",
        "realised": "share cut",
        "n_cut": "heads cut",
        "degenerate": "degenerate seeds",
        "ticket": "ticket",
    }
    marks = {"method": "method", "sparsity": "share asked", "realised": "share cut",
             "degenerate": "degenerate seeds"}  # fmt: skip
    null_means = ""
    not_built = "Not finished for this axis"
    too_few = {
        "too few texts": "too few texts for a verdict",
        "too few images": "too few texts for a verdict",
        "one class only": "texts of one class only, so no verdict",
    }
    handout = Handout(
        mask="Which heads to cut, of which model (by hash), chosen and trained how. A mask holds no retrained weights.",
        apply="python -m engine apply {name} --model BASE --to DIR",
        checkpoint="The model with heads cut, fine-tuned as in the audit, with its mask, tokenizer and card; read back "
        "and asked about test texts before it is kept.",
        checkpoint_wait="Building the cut model, loading its weights, comparing its answers with those stored …",
        texts=TEXTS,
    )
    maps = Maps(
        scores=tickets_importance.scores,
        groups=tickets_importance.groups,
        name=words.importance_name,
        wide=(tickets_importance.importance_maps,),
        beside=(tickets_importance.importance_scatter, tickets_agree.scores_agree),
        selectable=(tickets_importance.importance_maps, tickets_importance.importance_scatter),
        numbers=tickets_importance.head_numbers,
    )
    repeats = (
        tickets_agree.importance_repeats,
        tickets_survival.survival,
        tickets_agree.lowest_repeat,
        tickets_agree.scores_agree,
    )

    @property
    def overview(self) -> Overview:
        return Overview(
            (classifier_groups.paid_by_group, tickets_along.gap_along_sparsity),
            tickets_along.quality_along_sparsity,
            (levelling.levelling_down, tickets_table.tickets_table, cost.cost),
        )

    def reading(self, name: str) -> Reading:
        per_group = "accuracy" if name == "matthews" else name
        gap = Measure(f"{per_group}_gap", few="texts")
        return Reading(
            name,
            harm=gap,
            gap=gap,
            worst=Measure(f"worst_{per_group}", few="texts", names_group=True),
            best=Measure(f"best_{per_group}", few="texts", names_group=True),
            quality=Measure(name, per_axis=False, few="texts"),
            group=Measure(per_group, few="texts"),
        )

    def offers(self, run: Run) -> tuple[str, ...]:
        """Matthews correlation too, where it is the task's metric."""
        return (*self.offered, "matthews") if run.meta["data"].get("metric") == "matthews" else self.offered

    def details(self, reading: str) -> tuple[Measure, ...]:
        first = self.reading(reading)
        others = [self.reading(name) for name in self.readings if name != reading]
        more = [Measure(metric, few="texts") for metric in ("tpr_gap", "fpr_gap")]
        rest = [part for one in others for part in (one.quality, one.harm)]
        entropy = Measure("cross_entropy", per_axis=False, few="texts")
        found = (first.harm, first.quality, first.worst, first.best, *rest, *more, entropy)
        return tuple({measure.metric: measure for measure in found}.values())

    def style(self, method: str, dark: bool = False) -> Style:
        return ticket_style(method, dark)

    def definition(self, method: str) -> str:
        procedure, score = arm_of(method)
        parts = (words.PROCEDURES.get(procedure), words.IMPORTANCE.get(score))
        named = ("", f"{words.importance_name(score).capitalize()}: ")
        return " ".join(f"{name}{part.definition}" for name, part in zip(named, parts, strict=True) if part)

    def order(self, methods: Iterable[str]) -> list[str]:
        procedures, scores = list(words.PROCEDURES), list(words.IMPORTANCE)

        def place(method: str) -> tuple[int, int, str]:
            procedure, score = arm_of(method)
            return (
                procedures.index(procedure) if procedure in procedures else len(procedures),
                scores.index(score) if score in scores else len(scores),
                method,
            )

        return sorted(methods, key=place)

    def compared(self, methods: Sequence[str], chosen: str) -> list[str]:
        """Arms that differ from the chosen one in the score alone, or in the procedure alone; few arms all."""
        if len(set(methods) - {"dense"}) <= FEW_ARMS or chosen == "dense":
            return list(methods)
        mine = arm_of(chosen)
        return [method for method in methods if any(a == b for a, b in zip(mine, arm_of(method), strict=True))]

    def total(self, run: Run) -> int:
        return lookup.total_heads(run)

    def label(self, variant: Mapping[str, Any]) -> str:
        return label_of(dict(variant))

    def mark(self, variant: Mapping[str, Any]) -> str:
        return f", seed {variant['seed']}" if variant.get("seed", -1) >= 0 else ""

    def flag(self, variant: Mapping[str, Any]) -> str:
        wrong = int(variant.get("degenerate", 0))
        return f"{say.count(wrong, 'seed')} predict{'s' * (wrong == 1)} one class only" if wrong else ""

    def amount(self, run: Run, variant: Mapping[str, Any]) -> str:
        if not variant["n_cut"]:
            return "nothing"
        asked, realised = (say.percent(float(variant[name])) for name in ("sparsity", "realised"))
        return f"{variant['n_cut']:.0f} of {self.total(run)} heads ({realised}; asked {asked})"

    def reached(self, run: Run, variant: Mapping[str, Any]) -> str:
        asked, realised = (say.percent(round(float(variant[name]), 4)) for name in ("sparsity", "realised"))
        return f"{asked} asked, {variant['n_cut']:.0f} of {self.total(run)} heads cut ({realised})"

    def measured_on(self, run: Run, row: Mapping[str, Any] | None, split: str) -> str:
        n = f"{split} texts" if row is None or pd.isna(row["n"]) else say.count(int(row["n"]), f"{split} text")
        return f"{n}, {seeds_said(run)} per arm"

    @property
    def intervals(self) -> str:
        return words.INTERVALS_TEXTS

    def pareto_question(self, run: Run, choice: Choice) -> str:
        reading = self.reading(choice.reading)
        axis = words.axis_name(choice.measured)
        return f"What does a smaller {reading.harm.name} of {axis} cost in {reading.quality.name}?"

    def sentence(self, run: Run, choice: Choice, variant: dict[str, Any]) -> str:
        return tickets_headline.sentence(run, choice, variant)

    def warnings(self, run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
        return tickets_headline.warnings(run, choice, variant)

    def caveat(self, run: Run, choice: Choice, row: dict[str, Any] | None) -> str:
        return lookup.caveat(run, row, more=run.meta["data"].get("stand_in") or "")

    def axis_panels(self, run: Run, choice: Choice) -> Iterator[Panel]:
        yield classifier_groups.paid_by_group(run, choice)
        yield levelling.levelling_down(run, choice)
        yield tickets_table.tickets_table(run, choice)
        yield tickets_curve.tickets_by_group(run, choice)
        yield tickets_help.score_difference(run, choice)
        yield tickets_along.gap_along_sparsity(run, choice)
        yield pareto.pareto(run, choice)
        if tickets_groups.has_borkan(run, choice):
            yield tickets_groups.borkan(run, choice)

    def shared_panels(self, run: Run, choice: Choice) -> Iterator[Panel]:
        yield tickets_curve.tickets_curve(run, choice)
        yield tickets_along.quality_along_sparsity(run, choice)
        yield tickets_survival.survival(run, choice)
        yield tickets_survival.cut_order(run, choice)
        for score in tickets_importance.scores(run, choice)[:1]:
            yield tickets_importance.importance_maps(run, choice, score)
        yield tickets_agree.scores_agree(run, choice)
        yield tickets_agree.importance_repeats(run, choice)
        yield tickets_iterations.iterations(run, choice)
        yield cost.cost(run, choice)

    def notes(self, run: Run) -> list[str]:
        data = run.meta["data"]
        found = [*run.meta["warnings"], *(data.get("notes") or []), data.get("stand_in") or "", few_seeds(run)]
        return list(dict.fromkeys(filter(None, found)))

    def limits(self, run: Run) -> list[str]:
        made = [words.MADE_ON_TEXTS, words.NULL_BAND_TEXTS, words.INTERVALS_TEXTS, words.WINNING, AUC_LIMIT]
        return [*filter(None, [run.meta["data"].get("stand_in")]), *made, *LIMITS]

    def card_limits(self, run: Run) -> list[str]:
        return [*filter(None, [run.meta["data"].get("stand_in")]), AUC_LIMIT, *LIMITS]

    def loading(self, run: Run) -> list[str]:
        model = run.meta["model"]
        return [
            "This folder loads with `engine.surgery.text_replay.load_cut_classifier(folder)`: it builds "
            f"{model['model_type']}, cuts it as `mask.json` says, and fills in the weights; plain transformers cannot "
            "load uneven heads.",
            "",
            f"Base weights {model['weight_hash']}, pre-trained weights {model.get('pretrained_hash') or 'not given'}; "
            f"audit {run.id}, {run.meta['created']}, texts {run.meta['data']['digest']}.",
        ]

    def takable(self, run: Run, variant: Mapping[str, Any]) -> dict[str, str]:
        """The seeds behind a mean: masks and weights are theirs."""
        table = lookup.frame(run, "variants")
        trials = table[(table["pooled"] == variant["variant"]) & (table["seed"] >= 0)].sort_values("seed")
        rows = trials.to_dict("records") if len(trials) else [dict(variant)]
        return {row["variant"]: f"{lookup.variant_label(run, row)}{self.mark(row)}" for row in rows}

    def named(self, run: Run) -> pd.DataFrame:
        return run.table("variants")

    def write_mask(self, run: Run, variant: dict[str, Any], path: Path) -> Path:
        return write_text_mask(run, variant, path)

    def write_checkpoint(self, run: Run, variant: dict[str, Any], folder: Path, base: str | None) -> list[Path]:
        from engine.export.model_card import model_card
        from engine.export.text_checkpoint import seed_row, write_text_checkpoint  # late: it loads torch

        if not variant["n_cut"]:
            what = f"{variant['variant']!r} cuts nothing."
            raise RequestError(Fault("variant", what, "Choose one that cuts heads."))
        paths, card = write_text_checkpoint(run, variant, folder, base), folder / "README.md"
        card.write_text(model_card(run, seed_row(run, variant)), encoding="utf-8")
        return [*paths, card]

    def shelves(self) -> Iterator[Shelf]:
        found = getattr(catalog, "list_text_classifiers", list)()
        rows = [{"Name": entry.name, "From": entry.kind, "Note": entry.note[:1].upper() + entry.note[1:]}
                for entry in found]  # fmt: skip
        yield Shelf(
            "Text classifiers",
            pd.DataFrame(rows, columns=["Name", "From", "Note"]),
            "Any encoder of the BERT, DistilBERT or RoBERTa family works too: type its hub name or folder under “New "
            "audit”, with or without a classification head.",
        )
