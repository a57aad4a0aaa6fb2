"""Trains a masked model phase by phase: cross-entropy plus λ times the fairness gap, cancel per
batch, resumed exactly.

Lower level: theta <- AdamW(theta, gradient of l + λ max(F - τ, 0) at z = m * theta).
Upper level: m <- step against the gradient of the same, with the implicit term.

The hard mask is the best k. It acts in every forward pass and its gradient goes straight through to
the scores m. A finished phase is found again and not repeated; an unfinished one goes on at its
last kept step, on the same batches, to the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.core.errors import PruneAuditError
from engine.core.types import key_of, rng
from engine.surgery.filters.graph import cut_filters, places_of, put_back
from engine.tracks.fair_training.implicit import CROSS, closed_form
from engine.tracks.fair_training.masked import (
    FlopMask,
    Masked,
    MaskOptimizer,
    best,
    unmasked,
)
from engine.tracks.fair_training.methods import DEGRADATION, LOOKS, SPENT, FairJob, Trained
from engine.tracks.fair_training.surrogate import Surrogate, levels_of
from engine.training.fit import SAVE_EVERY, Batch, mixed, optimizer_of
from engine.training.recipe import rate_left

STATE = 2
"""Raise when the state of an unfinished phase is stored in another form: phases begun before then
begin again."""

ALMOST = 1e-4
"""What a cut unit is multiplied by while the mask's gradient is read: at exactly 0 a ReLU behind it
lets no gradient through, so that no filter could ever come back; this is the derivative from the
side where it acts."""


@dataclass(frozen=True)
class MaskLearning:
    """How the mask learns.

    count: units that stay. strength: λ in its loss. rate: of the scores, falling to zero as a
    cosine. inner: weight updates between two of the mask. rho: weight of the ridge in the implicit
    term. form: as in FORMS.
    settle: share of the iterations, at their end, in which the mask stays as it is. flops: the mask
    under a budget of FLOPs, in place of the count. plain: the scores follow Eq. 9 alone, m ← m − β
    dF/dm in [0, 1], without momentum, scale, budget and schedule. own: share of the images that the
    upper level alone reads, 0: all are for both. ridge:
    whether the weights are trained with ρ/2 |θ|² in place of the recipe's decay.
    """

    count: int
    strength: float
    rate: float = 0.01
    inner: int = 1
    rho: float = 1.0
    form: str = CROSS
    settle: float = 0.25
    flops: FlopMask | None = None
    plain: bool = False
    own: float = 0.0
    ridge: bool = False


class Trainer:
    """One training of `job`, in phases. `keep` [units] is the hard mask, None while nothing is cut.

    by_flops: whether the units are filters whose FLOPs are counted.
    """

    def __init__(
        self, job: FairJob, masked: Masked, sharpness: float = 1.0, by_flops: bool = False
    ) -> None:
        self.job, self.masked, self.model, self.by_flops = (
            job,
            masked,
            job.classifier.model,
            by_flops,
        )
        self.keep: np.ndarray | None = None
        self.scores = np.zeros(masked.total)
        self.rows: list[dict[str, Any]] = []
        self.spent: dict[str, float] = dict.fromkeys(SPENT, 0.0)
        self.surrogate = self._surrogate(sharpness)
        self._mask: Tensor | None = None
        self._phases: list[str] = []
        self._whole: dict[str, Tensor] = {}
        self._places: dict[str, Tensor] = {}

    def cut(self, keep: np.ndarray, scores: np.ndarray) -> None:
        """From now on only the units of keep [units] bool act; scores [units] are noted with them,
        as they are and not as a copy."""
        self.keep, self.scores = np.asarray(keep, dtype=bool), np.asarray(scores)
        if self._mask is None or len(self._mask) != len(self.keep):
            self._mask = torch.empty(len(self.keep), device=self.masked.device)
        self._mask.copy_(torch.from_numpy(self.keep))

    def keep_best(self, scores: np.ndarray, count: int) -> None:
        """From now on only the `count` units with the highest scores [units] act."""
        self.cut(best(scores, count, self.masked.blocks, self.masked.starts), scores)

    def make_small(self) -> None:
        """Cut the filters for real: the same training, in less time, since the mask no longer
        changes."""
        assert self.keep is not None, "nothing is cut yet"
        whole = replace(self.job.classifier, model=self.model)
        mask = self.job.graph.mask(self.keep)
        self._whole = {
            name: value.detach().clone() for name, value in self.model.state_dict().items()
        }
        self._places = places_of(whole, mask)
        small, _ = cut_filters(whole, mask)
        self.model, self.masked = small.model, unmasked(small.model)
        self.job = replace(self.job, batches=replace(self.job.batches, prepare=small.prepared))

    def run(
        self,
        phase: str,
        iterations: int,
        strength: float = 0.0,
        learning: MaskLearning | None = None,
    ) -> None:
        """Train for so many weight updates, with λ = strength; with `learning` the mask learns too,
        from its scores."""
        _Phase(self, phase, iterations, strength, learning).run()
        self._phases.append(phase)

    def mark(self) -> tuple[Any, ...]:
        """What was spent and noted so far, to go `back_to` after a training that leads nowhere
        else."""
        return dict(self.spent), list(self.rows), self.surrogate.running

    def back_to(self, mark: tuple[Any, ...]) -> None:
        """Forget what was trained since `mark`; the caller puts the weights back."""
        self.spent, self.rows, self.surrogate.running = dict(mark[0]), list(mark[1]), mark[2]

    @property
    def share_cut(self) -> float:
        """Share of FLOPs, or of units, that the hard mask cuts."""
        if self.keep is None:
            return 0.0
        left = (
            self.job.graph.flops(self.keep) / self.job.graph.flops()
            if self.by_flops
            else self.keep.mean()
        )
        return float(1.0 - left)

    def mask(self) -> Tensor | None:
        """The hard mask as numbers, [units]; None where nothing needs to be masked."""
        return self._mask if self.masked.total else None

    def result(self, sparsity: float, zeros: bool) -> Trained:
        """What the training has come to; zeros: cut units are zeros among the weights, else they
        stay as they are."""
        mask = self.mask() if zeros else None
        with self.masked.baked(mask) as model:
            weights = {
                name: value.detach().cpu().clone() for name, value in model.state_dict().items()
            }
        if self._places:
            weights = put_back(
                {name: value.cpu() for name, value in self._whole.items()}, weights, self._places
            )
        keep = np.ones(self.masked.total, dtype=bool) if self.keep is None else self.keep.copy()
        return Trained(
            sparsity, keep, self.scores.copy(), weights, list(self.rows), dict(self.spent)
        )

    def done(self) -> None:
        """Drop what was kept for resuming: the training is finished."""
        for phase in self._phases:
            self.job.keep(phase).clear()
        for model in (self.model, self.job.classifier.model):
            model.eval().requires_grad_(False)

    def _surrogate(self, sharpness: float) -> Surrogate:
        device = self.masked.device
        labels = self.job.targets.labels.argmax(dim=1).to(device)
        groups = torch.as_tensor(self.job.groups, dtype=torch.int64, device=device)
        before = None
        if self.job.notion == DEGRADATION:
            before = levels_of(
                torch.as_tensor(self.job.original, device=device), labels, groups, sharpness
            )
        return Surrogate(labels, groups, before, self.job.tolerance, sharpness=sharpness)


def rows_of_levels(job: FairJob, own: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper): which training images each level reads, as rows. own: the share that the mask
    learns from and no weight does, drawn with the seed, alike from every cell of class and group;
    0: both read all. Then the weights have already answered to what the mask is asked, and the
    implicit term says nothing.
    """
    rows = np.arange(len(job.groups))
    if not own:
        return rows, rows
    labels = job.targets.labels
    cells = job.groups * (labels.shape[1] + 1) + labels.argmax(dim=1).cpu().numpy()
    order = rng("upper level", job.seed).permutation(len(rows))
    order = order[np.argsort(cells[order], kind="stable")]
    above = np.diff(np.floor(own * np.arange(len(rows) + 1)).astype(int)) > 0
    return np.sort(order[~above]), np.sort(order[above])


class _Phase:
    """One phase of a trainer."""

    def __init__(
        self,
        trainer: Trainer,
        name: str,
        iterations: int,
        strength: float,
        learning: MaskLearning | None,
    ) -> None:
        self.trainer, self.job, self.name = trainer, trainer.job, name
        self.iterations, self.strength, self.learning = iterations, strength, learning
        self.store = self.job.keep(name)
        self.ridge = learning.rho if learning and learning.ridge else 0.0
        recipe = replace(self.job.recipe, weight_decay=0.0) if self.ridge else self.job.recipe
        self.optimizer = optimizer_of(trainer.model.parameters(), recipe)
        device = trainer.masked.device
        self.scores = torch.tensor(trainer.scores, dtype=torch.float32, device=device)
        self.mask_optimizer = MaskOptimizer(self.scores, learning.count if learning else 0)
        units = trainer.masked.total if learning else 0
        # Kept: fresh pages cost more than sums.
        self.gradient, self.almost = torch.zeros(2, units, device=device)
        self.step = 0
        self.saved = time.monotonic()

    def run(self) -> None:
        trainer = self.trainer
        trainer.model.requires_grad_(True).train()
        self._restore()
        below, above = rows_of_levels(self.job, self.learning.own if self.learning else 0.0)
        lower = self._batches("weights", trainer.spent["iterations"], below)
        upper = (
            self._batches("mask", trainer.spent["mask_updates"], above)
            if self.learning
            else iter(())
        )
        while self.step < self.iterations:
            self.job.check()
            with self._timed():
                batch = next(lower)
                losses = self._lower(batch)
                if self._mask_is_due():
                    self._upper(next(upper), batch)
            self._note(*losses)
            if time.monotonic() - self.saved > SAVE_EVERY:
                self._save(done=False)
        self._save(done=True)

    def _lower(self, batch: Batch) -> tuple[float, float, float]:
        """One update of the weights, θ ← θ − α ∇_θ(ℓ + λF) (BiFP, Sec. 4.3.1; λ = 1 there), with
        ρ/2 |θ|² if asked.

        Returns the loss in nats, the penalty F as a share, and the running surrogate gap.
        """
        trainer = self.trainer
        recipe, share = self.job.recipe, self.step / max(1, self.iterations)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate * rate_left(recipe.schedule, share)
        self.optimizer.zero_grad(set_to_none=True)
        seed = trainer.spent["iterations"]
        loss, penalty, gap, _ = self._losses(
            batch, trainer.mask(), self.strength, seed, self.step + 1
        )
        total = loss + self.strength * penalty
        (total + self.ridge / 2 * self._squares() if self.ridge else total).backward()
        self.optimizer.step()
        self.step += 1
        trainer.spent["iterations"] += 1
        trainer.spent["examples"] += len(batch.rows)
        return float(loss.detach()), float(penalty.detach()), gap

    def _squares(self) -> Tensor:
        """|θ|² of the masked parameters, a scalar with its gradient."""
        held = dict(self.trainer.model.named_parameters())
        return torch.stack(
            [held[part.name].square().sum() for part in self.trainer.masked.parts]
        ).sum()

    @property
    def _learns(self) -> MaskLearning:
        """How the mask learns, in a phase in which it does."""
        assert self.learning is not None, "the mask stays as it is"
        return self.learning

    def _upper(self, batch: Batch, below: Batch) -> None:
        """One update of the scores, m ← m − β ∇_m(ℓ + λF) with the implicit term (BiFP Eq. 9), and
        the hard mask they now mean. below: the batch that the weights have just answered to."""
        trainer, learning = self.trainer, self._learns
        hard = trainer.mask()
        assert hard is not None, "a mask that learns begins cut"
        mask = torch.clamp(hard, min=ALMOST, out=self.almost).detach()
        mask.requires_grad_(trainer.masked.bare is not None)
        seed = trainer.spent["mask_updates"]
        loss, penalty, _, z = self._losses(
            batch, mask, learning.strength, seed, self.step, leaves=True
        )
        lower = self._of_lower(loss, penalty, z, mask.detach(), below)
        self._move(self._of_mask(loss + learning.strength * penalty, mask, z, lower))
        if not math.isfinite(float(self.scores.sum())):  # of numbers from 0 to 1
            raise self._stopped("gradient of the mask", math.nan, self.step, learning.strength)
        trainer.spent["mask_updates"] += 1
        trainer.spent["examples"] += len(batch.rows)
        scores = self.scores.cpu().numpy()
        if learning.flops is None:
            trainer.keep_best(scores, learning.count)
        else:
            trainer.cut(learning.flops.best(scores), scores)

    def _move(self, gradient: Tensor) -> None:
        """The scores follow the gradient [units]."""
        learning = self._learns
        if learning.plain:
            self.scores.add_(gradient, alpha=-learning.rate).clamp_(0.0, 1.0)
        elif learning.flops is None:
            self.mask_optimizer.step(gradient, self._mask_rate())
        else:
            assert self.trainer.keep is not None, "a mask under a budget begins cut"
            keep = self.trainer.keep.astype(float)
            price = learning.flops.price(keep)
            self.mask_optimizer.step(gradient, self._mask_rate(), price, float(price @ keep))

    def _of_lower(
        self, loss: Tensor, penalty: Tensor, z: dict[str, Tensor], mask: Tensor, below: Batch
    ) -> dict[str, Tensor]:
        """The gradient of the lower level's loss at z, by parameter, where it is not the upper
        level's; else nothing.

        loss, penalty: of the upper level's batch, with z their leaves; mask [units]; below: a batch
        of the lower level.
        """
        learning, trainer = self._learns, self.trainer
        if learning.form != CROSS or (not learning.own and self.strength == learning.strength):
            return {}
        if learning.own:
            was, seed = trainer.surrogate.running, trainer.spent["mask_updates"]
            loss, penalty, _, z = self._losses(
                below, mask, self.strength, seed, self.step, leaves=True
            )
            # These images were counted when the weights were updated.
            trainer.surrogate.running = was
        found = torch.autograd.grad(
            loss + self.strength * penalty, list(z.values()), retain_graph=not learning.own
        )
        return dict(zip(z, found, strict=True))

    def _of_mask(
        self, total: Tensor, mask: Tensor, z: dict[str, Tensor], lower: dict[str, Tensor]
    ) -> Tensor:
        """The gradient of every unit, [units], the implicit term included; lower: see
        `_of_lower`."""
        trainer, learning = self.trainer, self._learns
        held = dict(trainer.model.named_parameters())
        wanted = [*z.values(), *([mask] if mask.requires_grad else [])]
        gradients = dict(zip([*z, None], torch.autograd.grad(total, wanted), strict=False))
        found = self.gradient.zero_()
        for part in trainer.masked.parts:
            theta = held[part.name].detach()
            spread = part.spread(mask.detach(), theta)
            g, other, out = gradients[part.name], lower.get(part.name), part.place(found, theta)
            each = closed_form(theta, g, spread, learning.rho, learning.form, other, out)
            if out is None:
                part.gather(found, each)
        return found + gradients[None] if mask.requires_grad else found

    def _losses(
        self,
        batch: Batch,
        mask: Tensor | None,
        strength: float,
        seed: float,
        step: int,
        leaves: bool = False,
    ) -> tuple[Tensor, Tensor, float, dict[str, Tensor]]:
        """Cross-entropy in nats, penalty, running surrogate gap, and z of the masked parameters by
        name.

        mask [units], None for no mask; strength: λ, to check that the loss is finite; leaves: see
        `Masked.forward`.
        """
        trainer = self.trainer
        torch.manual_seed(key_of("dropout", self.job.seed, int(seed)) % 2**63)
        with mixed(trainer.masked.device):
            logits, z = trainer.masked.forward(batch.inputs, mask, leaves)
        loss = self.job.targets.loss(batch.rows, logits)
        penalty, gap = trainer.surrogate.of(batch.rows, logits)
        if not math.isfinite(value := float((loss + strength * penalty).detach())):
            raise self._stopped("loss", value, step, strength)
        return loss, penalty, gap, z

    def _stopped(self, what: str, value: float, step: int, strength: float) -> PruneAuditError:
        return PruneAuditError(
            f"The {what} became {value} at step {step} of phase {self.name!r}. What was kept before"
            f" is still there. Lower the learning rate ({self.job.recipe.rate:g}) or λ"
            f" ({strength:g})."
        )

    def _mask_is_due(self) -> bool:
        learning = self.learning
        return bool(
            learning
            and self.step % learning.inner == 0
            and self.step <= (1.0 - learning.settle) * self.iterations
        )

    def _mask_rate(self) -> float:
        """Falls to zero where the mask is fixed, so that it settles instead of stopping in its
        tracks."""
        learning = self._learns
        share = self.step / max(1.0, (1.0 - learning.settle) * self.iterations)
        return learning.rate * rate_left("cosine", min(1.0, share))

    def _batches(self, purpose: str, step: float, rows: np.ndarray) -> Iterator[Batch]:
        """Batches of the training images at `rows` from the step on, counted over all phases: every
        method meets the same images in the same order. Their rows are places among all images."""
        every = self.job.batches
        seed = key_of("fair", purpose, every.seed) % 2**31
        for batch in replace(every, positions=every.positions[rows], seed=seed).forever(int(step)):
            places = torch.as_tensor(rows, device=batch.rows.device)
            yield Batch(places[batch.rows], batch.inputs)

    def _note(self, loss: float, penalty: float, gap: float) -> None:
        """One row of the curve, with a look at the validation images every so often and at the
        end."""
        trainer, job = self.trainer, self.job
        looked = dict.fromkeys(LOOKS, math.nan)
        if self.step % job.check_every == 0 or self.step == self.iterations:
            with trainer.masked.baked(trainer.mask()) as model, torch.no_grad():
                looked |= {name: float(value) for name, value in job.look(model).items()}
            looked["cut"] = trainer.share_cut
        row = {
            "phase": self.name,
            "step": int(trainer.spent["iterations"]),
            "loss": loss,
            "penalty": penalty,
            "surrogate_gap": gap,
            "mask_updates": int(trainer.spent["mask_updates"]),
            "examples": int(trainer.spent["examples"]),
            "seconds": trainer.spent["seconds"],
            **looked,
        }
        trainer.rows.append(row)
        job.point(row)
        job.step(self.step, self.iterations)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Training costs time, looking at validation images does not count."""
        start = time.perf_counter()
        yield
        self.trainer.spent["seconds"] += time.perf_counter() - start

    def _save(self, done: bool) -> None:
        """Keep the state, unless a weight is no number any more: what was kept before stays."""
        trainer = self.trainer
        self.saved = time.monotonic()
        if not all(bool(value.isfinite().all()) for value in trainer.model.state_dict().values()):
            if done:
                raise PruneAuditError(
                    f"A weight became infinite at step {self.step} of phase {self.name!r}."
                )
            return
        if done and self.iterations == 0:
            return
        self.store.save(
            {
                "done": done,
                "step": self.step,
                "model": trainer.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "mask optimizer": self.mask_optimizer.state(),
                "keep": None if trainer.keep is None else torch.as_tensor(trainer.keep),
                "trainer_scores": torch.as_tensor(trainer.scores),
                "running": trainer.surrogate.running,
                "rows": trainer.rows,
                "spent": trainer.spent,
            }
        )

    def _restore(self) -> None:
        state = self.store.load()
        if state is None:
            return
        trainer, device = self.trainer, self.trainer.masked.device
        trainer.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.mask_optimizer.restore(state["mask optimizer"])
        self.step = state["step"]
        if state["keep"] is not None:
            trainer.cut(state["keep"].numpy(), state["trainer_scores"].numpy())
        running = state["running"]
        trainer.surrogate.running = None if running is None else running.to(device)
        trainer.rows, trainer.spent = state["rows"], state["spent"]
