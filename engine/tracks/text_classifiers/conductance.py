"""Conductance of the attention probabilities of all layers at once, one forward and backward per
integration step; and its correlation with these probabilities.

F is the logit of the target class, read from the model in evaluation (no dropout). The path is
straight, from the baseline's word embeddings to the text's, at steps + 1 equidistant points;
position and type embeddings are added by the model as always. `conductance` has the sum. It is
Captum's LayerConductance with method "riemann_trapezoid", whose points are these; Captum repeats
all passes for every layer, here one gradient call serves them all.

Baseline: every word of the text becomes PAD (or MASK). [CLS], [SEP] (<s>, </s>) and padding stay
what they are, so the baseline is a text of the same length and shape without words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import kendalltau
from torch import Tensor

from engine.core.errors import PruneAuditError, refusal
from engine.tracks.text_classifiers.scores.base import kept_units

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


@dataclass(frozen=True, eq=False)
class Conductance:
    """Per layer, tensors [batch, heads, tokens, tokens], row = from, column = to; heads are those
    the layer still has.

    attention: the probabilities at the text itself. attribution: their conductance. delta [batch]:
    what the same sum, taken at the word embeddings (through which all of F's change goes), misses
    of `change`. Σ_k (x_{k+1} − x_k) · ∂F/∂x_k − (F(text) − F(baseline)), float64. It says how well
    the steps follow the path. A layer's attributions have no such total: part of F's change goes
    past attention, through the residual path. change [batch]: F(text) − F(baseline), float64.
    predicted [batch]: the class with the largest logit, int64.
    """

    attention: list[Tensor]
    attribution: list[Tensor]
    delta: Tensor
    change: Tensor
    predicted: Tensor


def conductance(
    clf: TextClassifier,
    batch: Mapping[str, Tensor],
    *,
    steps: int = 20,
    labels: Tensor | None = None,
    baseline: str = "pad",
    at_once: int = 32,
    check: Callable[[], None] = lambda: None,
) -> Conductance:
    """Attribution of every attention probability of every layer, for texts encoded together: their
    conductance

        Attr(A) = Σ_{k < steps} (A_{k+1} − A_k) · ∂F/∂A_k

    (Dhamdhere et al. 2018; Shrikumar et al. 2018), A_k the attention probabilities of a layer at
    point k of the path.
    batch: the tokenizer's tensors [batch, tokens].

    at_once: rows (texts x points) per forward pass; it bounds the memory and changes numbers by
    rounding only.
    labels: the class per text [batch] whose logit is attributed; None: the one the model predicts.
    Works on cut models and within `engine.surgery.heads.mask.masked`, whose silenced heads have
    attribution 0. RequestError where the tokenizer lacks the baseline's token, PruneAuditError for
    a model that is training, hides its attention or gives numbers that are not finite.
    """
    if clf.model.training:
        raise PruneAuditError(
            f"{clf.name} is in training mode, where dropout changes attention; call eval() first."
        )
    found = []
    for start in range(0, len(batch["input_ids"]), at_once):
        here = slice(start, start + at_once)
        part = {name: values[here] for name, values in batch.items()}
        wanted = None if labels is None else labels[here]
        found.append(_integrate(clf, part, steps, wanted, baseline, at_once, check))
    return found[0] if len(found) == 1 else _joined(found)


def baseline_embeddings(
    clf: TextClassifier, batch: Mapping[str, Tensor], baseline: str = "pad"
) -> tuple[Tensor, ...]:
    """Word embeddings of the texts and of their baselines, two tensors [batch, tokens, hidden]."""
    ids, tokenizer = batch["input_ids"], clf.tokenizer
    names = ("cls", "sep", "bos", "eos", "pad")
    special = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
    known = torch.tensor(sorted(one for one in special if one is not None), device=ids.device)
    words = ~torch.isin(ids, known) & batch["attention_mask"].bool()
    filler = getattr(tokenizer, f"{baseline}_token_id", None)
    table = clf.adapter.embeddings(clf.model)
    if filler is None:
        fix = f"Choose the {'pad' if baseline == 'mask' else 'mask'} baseline."
        raise refusal("baseline", f"the tokenizer of {clf.name} has no {baseline} token.", fix)
    with torch.no_grad():
        return table(ids), table(torch.where(words, int(filler), ids))


def _integrate(
    clf: TextClassifier,
    batch: dict[str, Tensor],
    steps: int,
    labels: Tensor | None,
    baseline: str,
    at_once: int,
    check: Callable[[], None],
) -> Conductance:
    """Conductance of texts that fit into one forward pass; labels [texts] int64 or None: the
    predicted class.

    Only running sums and the last point of each chunk are kept.
    """
    finish, start = baseline_embeddings(clf, batch, baseline)
    rest = {name: values for name, values in batch.items() if name != "input_ids"}
    check()
    with torch.no_grad():
        ends, logits = _forward(clf, finish, rest)
    predicted = logits.argmax(-1)
    goal = predicted if labels is None else labels.to(predicted)
    totals = [torch.zeros_like(maps) for maps in ends]
    along = torch.zeros(len(finish), dtype=torch.float64, device=finish.device)
    last: list[tuple[Tensor, Tensor]] = []
    first = along
    points = max(1, at_once // len(finish))
    shares = torch.linspace(
        0, 1, steps + 1
    ).tolist()  # float32 as in Captum, for the same points in float64 too
    for step in range(0, steps, points):
        check()
        gained, values, last = _pass(
            clf, (start, finish), rest, goal, shares[step:][: points + 1], totals, last
        )
        along += gained
        first = values if step == 0 else first
    for total, (here, slope), there in zip(totals, last, ends, strict=True):
        total += (there - here) * slope
    change = logits.gather(1, goal[:, None])[:, 0].double() - first
    delta = along - change
    if not all(bool(torch.isfinite(values).all()) for values in (delta, *totals)):
        raise PruneAuditError(
            f"{clf.name} gives attributions that are not finite: its weights are damaged, or the"
            " precision is too low."
        )
    return Conductance(ends, totals, delta, change, predicted)


def _pass(
    clf: TextClassifier,
    ends: tuple[Tensor, Tensor],
    rest: Mapping[str, Tensor],
    goal: Tensor,
    shares: list[float],
    totals: list[Tensor],
    last: list[tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Add some points, all shares but the last, to the totals per layer [texts, heads, tokens,
    tokens].

    ends: embeddings of the baseline and of the texts, [texts, tokens, width] each; goal: the class
    of each text [texts]; last: maps and slopes per layer of the point before. Returns what the same
    sum at the embeddings gains [texts], F at the first point [texts], and the new last point. Its
    maps are gone when it returns: two passes never need memory at once.
    """
    start, finish = ends
    maps, slopes, uphill, values = _slopes(clf, start, finish, rest, goal, shares[:-1])
    for layer, total in enumerate(totals):  # the steps that end within these points
        here, slope = maps[layer], slopes[layer]
        if last:
            total += (here[0] - last[layer][0]) * last[layer][1]
        if len(here) > 1:
            total += (here[1:] - here[:-1]).mul_(slope[:-1]).sum(0)
    strides = torch.diff(torch.tensor(shares, dtype=torch.float64, device=finish.device))
    gained = (uphill * (finish - start)).double().sum((2, 3)).T @ strides
    return (
        gained,
        values[0],
        [(here[-1].clone(), slope[-1].clone()) for here, slope in zip(maps, slopes, strict=True)],
    )


def _slopes(
    clf: TextClassifier,
    start: Tensor,
    finish: Tensor,
    rest: Mapping[str, Tensor],
    goal: Tensor,
    shares: list[float],
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """At points of the path: maps and ∂F/∂map per layer, ∂F/∂embeddings, F; [points, texts, ...]
    each."""
    count, texts = len(shares), len(goal)
    with torch.enable_grad():
        between = torch.cat([start + share * (finish - start) for share in shares])
        between.requires_grad_()
        repeated = {
            name: values.repeat(count, *[1] * (values.dim() - 1)) for name, values in rest.items()
        }
        found, logits = _forward(clf, between, repeated)
        values = logits.gather(1, goal.repeat(count)[:, None])[:, 0]
        alive = [maps for maps in found if maps.shape[1]]
        slopes = torch.autograd.grad(values.sum(), [between, *alive])
    each = iter(slopes[1:])
    downhill = [next(each) if maps.shape[1] else maps for maps in found]
    at, down = (
        [maps.detach().unflatten(0, (count, texts)) for maps in kind] for kind in (found, downhill)
    )
    uphill, values = (one.unflatten(0, (count, texts)) for one in (slopes[0], values.detach()))
    return at, down, uphill, values.double()


def _forward(
    clf: TextClassifier, embedded: Tensor, rest: Mapping[str, Tensor]
) -> tuple[list[Tensor], Tensor]:
    """A forward pass: attention probabilities per layer [points * texts, heads, tokens, tokens] as
    tensors of its graph (layers without heads get [rows, 0, t, t]), and logits."""
    out = clf.model(inputs_embeds=embedded, output_attentions=True, **rest)
    kept = [len(units) for units in kept_units(clf)]
    given = [maps for maps in out.attentions or () if maps is not None and maps.shape[1]]
    if len(given) != sum(heads > 0 for heads in kept):
        raise PruneAuditError(
            f"{clf.name} does not give out its attention probabilities; load it with eager "
            "attention."
        )
    tokens, each = embedded.shape[1], iter(given)
    empty = embedded.new_zeros(len(embedded), 0, tokens, tokens)
    return [next(each) if heads else empty for heads in kept], out.logits


def _joined(found: list[Conductance]) -> Conductance:
    maps = [(one.attention, one.attribution) for one in found]
    attention, attribution = (
        [torch.cat(parts) for parts in zip(*kind, strict=True)] for kind in zip(*maps, strict=True)
    )
    flat = [(one.delta, one.change, one.predicted) for one in found]
    return Conductance(attention, attribution, *map(torch.cat, zip(*flat, strict=True)))


# Correlation of two maps over token pairs, for every head of every text at once, on the maps'
# device. Pairs (i, j) count where neither token is padding. Equal to scipy.stats: Spearman with
# average ranks for ties, Kendall's tau-b, Pearson. A map that is constant over its pairs has no
# correlation: NaN, for the caller to count.


def correlations(a: Tensor, b: Tensor, valid: Tensor, method: str = "spearman") -> Tensor:
    """Correlation per text and head, float64 [n, heads].

    a, b: float [n, heads, tokens, tokens]; valid: bool [n, tokens], True where a token is no
    padding. Values at pairs of padding are never read. NaN where one of the maps is constant (or
    has one pair only).
    """
    n, heads = a.shape[:2]
    found = torch.full((n, heads), torch.nan, dtype=torch.float64, device=a.device)
    lengths = valid.sum(1)
    # equal lengths make rectangles, without a place for padding
    for length in filter(None, torch.unique(lengths).tolist() if heads else ()):
        rows = (lengths == length).nonzero()[:, 0]
        x, y = (_pairs(maps[rows], valid[rows], length) for maps in (a, b))
        varies = (x.amin(1) != x.amax(1)) & (y.amin(1) != y.amax(1))
        each = torch.full_like(varies, torch.nan, dtype=torch.float64)
        # without the rounding that carries a correlation beyond −1 and 1
        each[varies] = METHODS[method](x[varies], y[varies]).clamp(-1.0, 1.0)
        found[rows] = each.unflatten(0, (len(rows), heads))
    return found


def _pairs(maps: Tensor, valid: Tensor, length: int) -> Tensor:
    """[n, heads, tokens, tokens] -> [n * heads, length²], the pairs of tokens that are no
    padding."""
    n, heads = maps.shape[:2]
    if bool(valid[:, :length].all()):
        kept = maps[:, :, :length, :length]
    else:
        place = valid.nonzero()[:, 1].view(n, 1, length, 1)
        kept = maps.gather(2, place.expand(n, heads, length, maps.shape[3]))
        kept = kept.gather(3, place.transpose(2, 3).expand(n, heads, length, length))
    return kept.reshape(n * heads, length * length)


def _spearman(x: Tensor, y: Tensor) -> Tensor:
    """Pearson of average ranks: x, y [rows, numbers] -> [rows] float64.

    Everything stays in the order of x; the ranks of y are found in that order.
    """
    middle = (x.shape[1] - 1) / 2  # the mean of ranks that start at 0
    rank, order = _average_ranks(x)
    other, again = _average_ranks(y.gather(1, order))
    rank, other = rank - middle, other - middle
    together = (rank.gather(1, again) * other).sum(1)
    return together / (rank.square().sum(1) * other.square().sum(1)).sqrt()


def _average_ranks(values: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks from 0 of each row's sorted values, ties sharing their mean, float64, and the order
    that sorts, int64.

    All three are [rows, numbers].
    """
    ordered, order = _sorted(values)
    width = values.shape[1]
    place = torch.arange(width, device=values.device)
    edge = ordered[:, 1:] != ordered[:, :-1]
    first, last = place.repeat(len(values), 1), place.repeat(len(values), 1)
    first[:, 1:].mul_(
        edge
    )  # 0 inside a run of equal values, then the largest so far: where the run began
    last[:, :-1].masked_fill_(~edge, width)
    first, last = first.cummax(1).values, last.flip(1).cummin(1).values.flip(1)
    return (first + last).double() / 2, order


def _sorted(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted rows and the order, [rows, numbers] each. On a CPU by numpy, whose sort is several
    times as fast as torch's.

    float32 numbers are sorted as whole numbers: their bits, flipped below zero so that they order
    alike, above their place in the row.
    """
    if values.device.type != "cpu":
        return values.sort(dim=1)
    if values.dtype != torch.float32:
        order = torch.from_numpy(np.argsort(values.numpy(), axis=1))
        return values.gather(1, order), order
    keys = values.contiguous().view(torch.int32).numpy().astype(np.int64)
    keys ^= (keys >> 31) & 0x7FFFFFFF
    keys = (keys << 32) | np.arange(values.shape[1])
    keys.sort(axis=1)
    order = torch.from_numpy(keys & 0xFFFFFFFF)
    return values.gather(1, order), order


def _pearson(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's correlation of each row: x, y [rows, numbers] -> [rows] float64."""
    x, y = (values.double() - values.double().mean(1, keepdim=True) for values in (x, y))
    x, y = (
        values / values.abs().amax(1, keepdim=True) for values in (x, y)
    )  # squares of tiny numbers vanish
    return (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt()


def _kendall(x: Tensor, y: Tensor) -> Tensor:
    """Kendall's tau-b of each row: x, y [rows, numbers] -> [rows] float64. By scipy, row by row."""
    pairs = zip(x.double().cpu().numpy(), y.double().cpu().numpy(), strict=True)
    found = [kendalltau(*pair).statistic for pair in pairs]
    return torch.tensor(found, dtype=torch.float64, device=x.device)


METHODS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "spearman": _spearman,
    "kendall": _kendall,
    "pearson": _pearson,
}
