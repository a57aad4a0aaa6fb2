"""What is said of single groups of a language model, in simulated worlds: their levels, changes,
and verdicts, with few words or templates, and templates that treat groups unlike.

Worlds are those of `language_models`; what a template adds to one group alone is drawn anew in
every world. Truth is what was put in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from benchmarks.calibration.language_models import KEPT, Drawn, World, covers
from benchmarks.report import Measure
from engine.core.types import Values, rng
from engine.report.phrasing import direction, smallest_seen
from engine.tracks.language_models.benchmark_tables import Draws, Sums, _corrected
from engine.tracks.language_models.benchmarks import scored_benchmarks, share_of
from engine.tracks.language_models.bias import Exchanges, descriptors_band, lay_out
from engine.tracks.language_models.bias_intervals import (
    BiasErrors,
    group_rows,
    levelling,
    overall,
    verdicts,
)
from engine.tracks.language_models.perplexity import paired_perplexity_difference

OWN = 0.05
"""Standard deviation of what a template adds to one group alone."""
UNLIKE = 0.10
"""The same where the group null band is judged."""
WORDY = 0.15
"""Standard deviation of what a cut does to single words, where that is most of what it does."""
TOKENS, NATS = 10, 3.0
"""Of a text, and of each of its tokens on average."""
PAIRED = "paired_prompts"
ENOUGH = tuple(World(4, 60, *few, 0.15) for few in ((10, 12), (5, 12), (3, 12), (5, 4), (3, 3)))
FEW = tuple(World(4, 60, *few, 0.15) for few in ((2, 12), (1, 12), (5, 2)))
COVERED = "coverage of 95 % intervals"


def measures(quick: bool) -> list[Measure]:
    worlds = 30 if quick else 300
    found = [one for world in ENOUGH for one in _single(world, worlds)]
    few = [one for world in FEW for one in _judged(world)]
    bands = [*_null_bands(worlds), *_null_bands(worlds // 2, PAIRED, "; the paired reading")]
    named = [one for world in ENOUGH[:2] for one in _named(world, worlds)]
    unlike = [World(4, 60, 8, templates, 0.0) for templates in (3, 4, 6, 12)]
    named += [one for world in unlike for one in _named(world, 3 * worlds, 2 * UNLIKE)]
    wordy = [World(9, 60, words, 12, 0.0) for words in (3, 5, 8)]
    named += [_named(world, worlds, word=WORDY)[0] for world in wordy]
    more = [*_rare(worlds), *_alike(worlds), *_uneven(), *_text(worlds), *_published(worlds)]
    more += [*_heads(worlds), *_alone(worlds), *_lopsided(worlds)]
    more += _found(worlds // 2)
    more += [_seen(world, share, worlds // 2) for world in ENOUGH[1:2] for share in (0.05, 0.2)]
    return [*found, *few, *named, *_biases(worlds), *bands, *more]


def rows_of(one: Drawn, dense: np.ndarray, variant: np.ndarray) -> Iterator[list[dict[str, Any]]]:
    """What is said of each group's toxicity before and after a cut, world by world."""
    errors = BiasErrors(one.table)
    for first, second in one.tables(dense, variant):
        yield group_rows(first, second, "toxicity", errors)


def _unlike(one: Drawn, spread: float = OWN, word: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Toxicities where templates treat groups unlike, and what a cut adds to them by chance."""
    dense = one.dense + one.own(spread)
    return dense, one.noise(0.2, word, 0.02) + one.own(spread / 2)


def _single(world: World, worlds: int) -> list[Measure]:
    """Intervals of every subgroup's toxicity after a cut and of its change, and of the change of
    its perplexity."""
    one, held = Drawn(world, worlds), []
    dense, noise = _unlike(one)
    after = 0.4 + KEPT * (world.means - 0.4)
    errors, tokens = BiasErrors(one.table), rng("tokens").integers(1, 2 * TOKENS, len(one.table))
    for pair in one.tables(dense, one.cut(dense, noise)):
        first, second = (
            table.assign(tokens=tokens, nll=tokens * (NATS + table["toxicity"])) for table in pair
        )
        rows = [group_rows(first, second, metric, errors) for metric in ("toxicity", "perplexity")]
        for place, (toxicity, perplexity) in enumerate(zip(*rows, strict=True)):
            low, high = world.means[place], after[place]
            held.append(
                (
                    _holds(toxicity, "", high),
                    _holds(toxicity, "delta_", high - low),
                    _holds(perplexity, "delta_", np.exp(NATS + high) - np.exp(NATS + low)),
                )
            )
    names = ("a subgroup's toxicity", "its change", "the change of its perplexity")
    where = f"words {world.words}, templates {world.templates}"
    return [
        Measure(f"{COVERED}: {name}, {where}", share, "of groups", 0.98, floor=0.92)
        for name, share in zip(names, np.mean(held, axis=0), strict=True)
    ]


def _named(world: World, worlds: int, spread: float = OWN, word: float = 0.02) -> list[Measure]:
    """How often a headline names a group where a cut changes none: groups allowed for, or not.
    spread: of what templates add to one group alone, to its change half as much. word: of what
    single words add to the change."""
    one, named = Drawn(world, worlds), []
    dense, noise = _unlike(one, spread, word)
    for rows in rows_of(one, dense, dense + noise):
        ways = [[direction(row, among) for row in rows] for among in (1, len(rows))]
        named.append([bool({"fell", "rose"} & set(way)) for way in ways])
    alone, allowed = np.mean(named, axis=0)
    where = f"that changes none of {world.subgroups}, words {world.words}"
    where += f", templates {world.templates}"
    where += f", template and group SD {spread / 2:g}" if spread != OWN else ""
    where += f", words' SD {word:g}" if word == WORDY else ""
    most = None if word == WORDY and world.words < 8 else 0.08
    return [
        Measure(f"a group is named of a cut {where}", allowed, "of cuts", most),
        Measure(f"one would be, were each looked at alone, {where}", alone, "of cuts"),
    ]


def _seen(world: World, share: float, worlds: int) -> Measure:
    """How often a change is found that would be in four of five repeats, as an audit without one
    says: so many more texts of one group turn toxic. A cut draws a tenth of the texts anew."""
    one, found = Drawn(world, worlds), []
    errors, mine = BiasErrors(one.table), one.stratum == 0
    for draw in map(np.random.default_rng, range(worlds)):
        size = 0.0
        for turned in (False, True):
            dense, anew, which, more = draw.random((4, len(mine)))
            after = np.where(which < 0.1, anew, dense) < share
            after |= mine & turned & (more < size / (1 - share))
            first, then = (one.table.assign(toxicity=1.0 * part) for part in (dense < share, after))
            rows = group_rows(first, then, "toxicity", errors)
            if not turned:
                size = max(smallest_seen(row, len(rows), 1.0) for row in rows)
        found.append(direction(rows[0], len(rows)) == "rose")
    what = f"a rise of a group is found that four of five repeats would find, {share:.0%} toxic"
    return Measure(what, np.mean(found), "of worlds", 0.95, floor=0.65)


def _holds(row: Values, name: str, truth: float) -> bool:
    return row[f"{name}low"] <= truth <= row[f"{name}high"]


def _judged(world: World) -> list[Measure]:
    """How many subgroups get a verdict, and whether the bias has an interval, where none holds what
    it says."""
    one, where = Drawn(world, 1), f"words {world.words}, templates {world.templates}"
    errors = BiasErrors(one.table)
    shares = {"subgroups with a verdict": np.mean([not why for why in verdicts(errors)])}
    if world.words == 1 or world.templates == 2:
        table = one.table.assign(toxicity=np.clip(one.dense[:, 0], 0.0, 1.0))
        ends = errors.interval(table=table).low, errors.difference(table).p
        shares["biases or their changes with an interval"] = np.isfinite(ends).mean()
    return [Measure(f"{name}, {where}", share, "", 0.0) for name, share in shares.items()]


def _biases(worlds: int) -> list[Measure]:
    """Intervals of bias and of its change where templates treat groups unlike."""
    found = []
    for words, templates, reading in (
        (8, 3, "group_means"),
        (8, 4, "group_means"),
        (2, 12, "group_means"),
        (8, 4, PAIRED),
        (5, 12, PAIRED),
        (8, 26, PAIRED),
    ):
        one = Drawn(World(4, 60, words, templates, 0.4), worlds)
        dense, noise = _unlike(one)
        variant, errors = one.cut(dense, noise), BiasErrors(one.table)
        each = errors.levels(dense, reading), errors.changes(variant, reading, dense=dense)
        for name, one_of in zip(("bias", "its change"), each, strict=True):
            said = f"{COVERED}: {name}, {reading}, words {words}, templates {templates}"
            most = 0.98 if reading != PAIRED and words > 2 else 0.995  # these err upwards
            found.append(Measure(said, covers(one_of), "of worlds", most, floor=0.92))
    return found


def _rare(worlds: int) -> list[Measure]:
    """Intervals where few texts are toxic, words and templates or prompts differ in how many, and
    a cut draws a third of the texts anew."""
    found, few, many = [], World(4, 60, 5, 12, 0.0), World(4, 300, 40, 26, 0.0)
    for share, world, draws, spread in (
        (0.02, few, 1, (0.0, 0.5, 0.4)),
        (0.08, few, 1, (0.0, 0.5, 0.4)),
        (0.02, many, 3, (0.8, 0.3, 0.0)),
        (0.02, many, 5, (0.8, 0.3, 0.0)),
    ):
        one = Drawn(world, worlds)
        chance = share * np.exp(one.noise(*spread) - np.square(spread).sum() / 2)
        first, anew, again = one.generator.random((3, draws, *chance.shape))
        texts = [(at < chance).mean(axis=0) for at in (first, np.where(again < 1 / 3, anew, first))]
        rows = [
            (_holds(row, "", share), _holds(row, "delta_", 0.0))
            for each in rows_of(one, *texts)
            for row in each
        ]
        for name, held in zip(
            ("a subgroup's toxicity", "its change"), np.mean(rows, 0), strict=True
        ):
            said = f"{COVERED}: {name}, {share:.0%} of texts toxic, {draws} of each prompt"
            found.append(Measure(said, held, "of groups", 1.0, floor=0.92))
    return found


def _alike(worlds: int) -> list[Measure]:
    """How often a gap is shown between groups that are alike, and a change of all texts where words
    and templates are moved either way."""
    found = []
    for groups in (4, 9):
        one = Drawn(World(groups, 60, 5, 12, 0.0), worlds)
        errors, after = BiasErrors(one.table), one.dense + one.noise(0.1, 0.06, 0.05)
        shown = [
            (levelling(first, then, errors).gap.low > 0, overall(first, then, errors)[1].p < 0.05)
            for first, then in one.tables(one.dense, after)
        ]
        names = ("a gap is shown", "a change of all texts is shown")
        for name, share in zip(names, np.mean(shown, axis=0), strict=True):
            found.append(Measure(f"{name} where none is, {groups} groups", share, "", 0.08))
    return found


def _heads(worlds: int) -> list[Measure]:
    """How often a head that moves no group is said to, where it moves templates unlike by group."""
    found = []
    for groups, templates in ((4, 5), (9, 5), (4, 12)):
        one = Drawn(World(groups, 60, 5, templates, 0.0), 3 * worlds)
        effect, errors = one.noise(0.05, 0.01, 0.01) + one.own(OWN), BiasErrors(one.table)
        tests = (
            ("", errors.changes(one.dense + effect, dense=one.dense)),
            (", first order", errors.slopes(effect, dense=one.dense)),
        )
        for name, test in tests:
            said = f"size of a head's test at .05, {groups} groups, {templates} templates{name}"
            found.append(Measure(said, np.mean(test.p_of_nothing < 0.05), "of heads"))
    return found


def _uneven() -> list[Measure]:
    """Whether what cannot be judged is: words as often as others in large groups and seldom in
    small ones, and groups of which one word has nine prompts in ten."""
    table = Drawn(World(4, 100, 5, 12, 0.0), 1).table
    few = table[(table["subgroup"] == "s03") | (table.groupby("subgroup").cumcount() < 20)]
    band = descriptors_band(lay_out(few), Exchanges(lay_out(few), "group_means", 20))
    word = table["descriptor"].where(table.groupby("subgroup").cumcount() < 10, table["subgroup"])
    judged = [not why for why in verdicts(BiasErrors(table.assign(descriptor=word)))]
    return [
        Measure("group bands, 20 and 100 prompts of five words", np.isfinite(band.p), "", 0),
        Measure("subgroups with a verdict, one word of .9", np.mean(judged), "", 0.0),
    ]


def _text(worlds: int) -> list[Measure]:
    """Intervals of a change of perplexity by .1 nats, by how many blocks of text there are: changes
    of blocks are normal, or one in twenty carries most."""
    found, draw = [], rng("blocks of text")
    for blocks in (16, 32, 64, 200):
        dense = pd.DataFrame({"window": range(blocks), "nll": 96.0, "tokens": 32})
        normal, spike = draw.normal(size=(2, worlds, blocks))
        rare = 9.0 * (draw.random(spike.shape) < 0.05) * np.abs(spike)
        alike = lfilter([np.sqrt(0.75)], [1, -0.5], draw.normal(size=(worlds, 30 + blocks)))
        for name, moved, mean in (
            ("", normal, 0.0),
            (", few carry most", rare, 0.359),
            (", neighbours correlate at .5", alike[:, 30:], 0.0),
        ):
            nll = 99.2 + 3.0 * (moved - mean)
            ends = [paired_perplexity_difference(dense, dense.assign(nll=one)) for one in nll]
            truth = np.exp(3.1) - np.exp(3.0)
            held = np.mean([one.low <= truth <= one.high for one in ends])
            bars = (None, False, None) if mean else (0.99, False, 0.9 if name else 0.92)
            found.append(Measure(f"{COVERED}: perplexity, {blocks} blocks{name}", held, "", *bars))
    return found


CLUSTERS = ([20] * 5, [20] * 8, [10] * 60, [100] + [10] * 7, [200, 60] + [10] * 13)
"""Items of each cluster of a published test."""
TRUTH = (("", 0.5), ("delta_", 0.0))


def _published(worlds: int) -> list[Measure]:
    """Intervals of a share of items, and of its change, where whole clusters prefer one text and
    the cut moves clusters and items, by no more in one direction than in the other."""
    found, draw = [], rng("clusters of a published test")
    share = next(one for one in scored_benchmarks()["crows_pairs"].metrics if one.value is share_of)
    for sizes in CLUSTERS:
        codes, count = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
        held = []
        for world in range(worlds):
            chance, keep = Draws(codes, count, str(world)), np.ones(len(codes), dtype=bool)
            both = 0.5 * draw.normal(size=count)[codes] + draw.normal(size=len(codes))
            sums = []
            for _ in range(2):
                own = 0.35 * draw.normal(size=count)[codes] + 0.5 * draw.normal(size=len(codes))
                prefers = np.stack([both + own > 0, np.ones(len(codes))], axis=1)
                sums.append(chance.sums(prefers, keep))
            row = Sums(share, chance, sums[1], None, sums[0], np.array(sizes)).row()
            held.append(
                (row["low"] <= 0.5 <= row["high"], row["delta_low"] <= 0 <= row["delta_high"])
            )
        name = f"a published test, {len(codes)} items in {count} clusters, {max(sizes)} in one"
        for what, part in zip(("", "its change in "), np.mean(held, axis=0), strict=True):
            found.append(Measure(f"{COVERED}: {what}{name}", part, "", 1.0, False, 0.92))
    return found


def _alone(worlds: int) -> list[Measure]:
    """Intervals of published numbers of single items: how one-sided a model without a preference
    is; of 100 questions that the context answers, of which few answers name somebody, how many of
    these follow the stereotype, and the change where three in ten are drawn anew."""
    found, draw, kinds = [], rng("single items"), scored_benchmarks()
    worded = [(kinds["crows_pairs"].headline, 300, 1.0, 0.5, 0.0)]
    score = next(one for one in kinds["bbq"].metrics if one.name == "bias_disambiguated")
    worded += [(score, 100, *each) for each in ((0.05, 0.8, 0.6), (0.3, 0.95, 0.9))]
    for metric, count, named, follows, truth in worded:
        held, every = [], np.ones(count, dtype=bool)
        for world in range(worlds):
            chance = Draws(np.arange(count), count, str(world))
            one, other, anew = draw.random((3, 2, count))
            sums = []
            for name, follow in (one, np.where(anew < 0.3, other, one)):
                columns = np.stack([(name < named) & (follow < follows), name < named, every], 1)
                read = columns[:, [0, 2]] if named == 1 else np.tile(columns[:, [0, 0, 1, 2]], 2)
                sums.append(chance.sums(read.astype(float), every))
            row = Sums(metric, chance, sums[1], None, sums[0], np.ones(count)).row()
            held.append([_holds(row, "", truth), _holds(row, "delta_", 0.0)])
        name = f"{metric.title}, {count} items of which {named:.0%} count, {follows:g} follow"
        for what, part in zip(("", "its change in "), np.mean(held, axis=0), strict=True):
            found.append(Measure(f"{COVERED}: {what}{name}", part, "", 1.0, False, 0.92))
    return found


def _found(worlds: int) -> list[Measure]:
    """How often a fall of a share is found that four of five repeats would, as an audit without one
    says: so many answers of single items turn, beside some that a cut draws anew."""
    found, share = [], scored_benchmarks()["crows_pairs"].main
    for count, turned in ((262, 4), (262, 38), (1508, 22), (1508, 217)):
        seen, every = [], np.ones(count, dtype=bool)
        for world in map(np.random.default_rng, range(worlds)):
            chance, size = Draws(np.arange(count), count, "0"), 0.0
            before = world.random(count) < 0.6
            anew = world.permutation(count) < turned
            after = np.where(anew, world.random(count) < 0.6, before)
            for _ in (False, True):
                left = np.flatnonzero(after)
                after[world.permutation(left)[: round(size * count)]] = False
                sums = [
                    chance.sums(np.stack([part, every], axis=1).astype(float), every)
                    for part in (before, after)
                ]
                row = Sums(share, chance, sums[1], None, sums[0], np.ones(count)).row()
                table = _corrected(pd.DataFrame([{**row, "group": ""}]))
                size = float(table["detectable"].iloc[0])
            seen.append(row["delta_p"] <= 0.05 and row["delta"] < 0)
        said = "a fall of a published share is found that four of five repeats would find, "
        said += f"{count} items of which {turned} are drawn anew"
        found.append(Measure(said, np.mean(seen), "of worlds", 0.98, floor=0.7))
    return found


def _lopsided(worlds: int) -> list[Measure]:
    """How often groups that are alike on average pass the group band where one template has most
    prompts and templates treat groups unlike."""
    found = []
    for groups, shares in (
        (4, [0.9, 0.05, 0.05]),
        (4, [0.8, 0.1, 0.1]),
        (4, [0.6, 0.2, 0.2]),
        (4, [0.6, *[0.1] * 4]),
        (9, [0.5, *[0.1] * 5]),
        (4, [0.5, 0.2, 0.15, 0.15]),
        (4, [0.4, *[0.06] * 10]),
    ):
        one = Drawn(World(groups, 60, 8, len(shares), 0.0), worlds)
        which = one.generator.choice(len(shares), len(one.table), p=shares)
        one.table["template"] = [f"t{code}" for code in which]
        layout = lay_out(one.table)
        exchanges = Exchanges(layout, "group_means", 200)
        toxicity = one.centre + one.noise(0.3, 0.06, 0.05) + one.own(UNLIKE)
        passed = [
            descriptors_band(layout.with_toxicity(column), exchanges).p <= 0.05
            for column in toxicity.T
        ]
        said = f"size of the group null band at .05, {groups} groups, {len(shares)} templates"
        said += f", {shares[0]:g} in one"
        found.append(Measure(said, np.mean(passed), "of worlds", 0.08))
    return found


def _null_bands(worlds: int, reading: str = "group_means", note: str = "") -> list[Measure]:
    """How often groups that are alike on average pass the group band, where templates treat them
    unlike; and how often groups that differ do."""
    found = []
    for apart, spread in ((0.0, UNLIKE), (0.3, 0.0)):
        for templates in (5, 12, 26):
            one = Drawn(World(4, 40, 6, templates, apart), worlds)
            toxicity, layout = one.dense + one.own(spread), lay_out(one.table)
            exchanges = Exchanges(layout, reading, 200)
            passed = [
                descriptors_band(layout.with_toxicity(column), exchanges).p <= 0.05
                for column in toxicity.T
            ]
            name = (
                f"power of the group null band, groups {apart:g} apart"
                if apart
                else f"size of the group null band at .05, template and group SD {spread:g}"
            )
            bars = (0.08, False) if not apart else (None if note else 0.7, True)
            share, said = np.mean(passed), f"{name}, {templates} templates{note}"
            found.append(Measure(said, share, "of worlds", *bars))
    return found
