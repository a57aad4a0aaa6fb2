"""Conductance of the attention probabilities of all layers at once: one forward and backward per
integration step.

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

import torch
from torch import Tensor

from engine.core.errors import Fault, PruneAuditError, RequestError, refusal, unknown
from engine.tracks.text_classifiers.scores.base import kept_units

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier

TARGETS = ("predicted", "gold")
BASELINES = ("pad", "mask")
Names = Mapping[str, tuple[str, tuple[str, ...]]]
"""What is given and what is known, by the name of an argument."""


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
    target: str = "predicted",
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
    target: the class the model predicts, or that of `labels` [batch] ("gold"). Works on cut models
    and within `engine.surgery.heads.mask.masked`, whose silenced heads have attribution 0.
    RequestError for arguments that do not fit, PruneAuditError for a model that is training, hides
    its attention or gives numbers that are not finite.
    """
    rows = len(batch["input_ids"])
    names = {"target": (target, TARGETS), "baseline": (baseline, BASELINES)}
    _check_ask(clf, rows, {"steps": steps, "at_once": at_once}, labels, names)
    if clf.model.training:
        raise PruneAuditError(
            f"{clf.name} is in training mode, where dropout changes attention; call eval() first."
        )
    found = []
    for start in range(0, rows, at_once):
        here = slice(start, start + at_once)
        part = {name: values[here] for name, values in batch.items()}
        wanted = labels[here] if target == "gold" and labels is not None else None
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
    table = clf.adapter.embeddings(clf.model)
    with torch.no_grad():
        return table(ids), table(torch.where(words, _filler(clf, baseline), ids))


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
    return _checked(clf, Conductance(ends, totals, along - change, change, predicted))


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
        between = torch.cat([start + share * (finish - start) for share in shares]).requires_grad_(
            True
        )
        repeated = {
            name: values.repeat(count, *[1] * (values.dim() - 1)) for name, values in rest.items()
        }
        found, logits = _forward(clf, between, repeated)
        values = logits.gather(1, goal.repeat(count)[:, None])[:, 0]
        alive = [maps for maps in found if maps.shape[1]]
        slopes = torch.autograd.grad(values.sum(), [between, *alive])
    each = iter(slopes[1:])
    downhill = [next(each) if maps.shape[1] else maps for maps in found]
    split = [
        [maps.detach().unflatten(0, (count, texts)) for maps in kind] for kind in (found, downhill)
    ]
    uphill = slopes[0].unflatten(0, (count, texts))
    return split[0], split[1], uphill, values.detach().double().unflatten(0, (count, texts))


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


def _filler(clf: TextClassifier, baseline: str) -> int:
    found = getattr(clf.tokenizer, f"{baseline}_token_id", None)
    if found is None:
        fix = f"Choose the {next(name for name in BASELINES if name != baseline)} baseline."
        raise refusal("baseline", f"the tokenizer of {clf.name} has no {baseline} token.", fix)
    return int(found)


def _check_ask(
    clf: TextClassifier, rows: int, asked: Mapping[str, int], labels: Tensor | None, names: Names
) -> None:
    """RequestError with every fault of what is asked; rows: number of texts; labels [rows] int or
    None."""
    faults = [
        Fault(name, f"{value} is too few.", "Give at least 1.")
        for name, value in {"texts": rows, **asked}.items()
        if value < 1
    ]
    faults += [
        unknown(name, given, known) for name, (given, known) in names.items() if given not in known
    ]
    if names["target"][0] == "gold":
        known = len(clf.classes)
        given = [] if labels is None else labels.tolist()
        if len(given) != rows or not all(0 <= label < known for label in given):
            what = f"the gold target needs one class of 0 to {known - 1} per text."
            faults.append(Fault("labels", what, "Give labels, or target predicted."))
    if faults:
        raise RequestError(faults)


def _checked(clf: TextClassifier, found: Conductance) -> Conductance:
    numbers = [found.delta, *found.attribution]
    if not all(bool(torch.isfinite(values).all()) for values in numbers):
        raise PruneAuditError(
            f"{clf.name} gives attributions that are not finite: its weights are damaged, or the"
            " precision is too low."
        )
    return found


def _joined(found: list[Conductance]) -> Conductance:
    attention, attribution = (
        [torch.cat(parts) for parts in zip(*(getattr(part, kind) for part in found), strict=True)]
        for kind in ("attention", "attribution")
    )
    flat = [
        torch.cat([getattr(part, name) for part in found])
        for name in ("delta", "change", "predicted")
    ]
    return Conductance(attention, attribution, *flat)
