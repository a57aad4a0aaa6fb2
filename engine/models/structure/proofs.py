"""What was read off a model, shown on the model itself: on eight tokens, before anything is
measured.

1. The output projection reads heads * width numbers.
2. Heads lie there one after the other: what a head hands over depends on its own queries, keys and
   values only. These are the outputs of the other projections that the layout says (by gradients,
   of every head of every layer).
3. A silenced head changes what its layer hands on, and nothing below it.
4. With all heads silenced no token sees another: nothing else carries anything from token to token.
5. Blocks can be run again from kept inputs, stacked, and logits follow from the last one's output.
   Where that fails, passes start at the embeddings, and that is said.
6. Perplexity and drawing make their own calls: what lies below the head, then the head; texts
   padded on the left, with a cache, rows that leave the batch. Both give the logits of the plain
   pass. Where texts that share a row (packing.py) do too, they are read so.
7. With a head cut out, two that leave shared keys uneven, or all, an attention gives what it gives
   with them silenced. Where that fails heads are zeroed instead, and that is said.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from engine.core.errors import RequestError, refusal, said_by
from engine.core.types import HeadMask
from engine.models import runtime
from engine.models.packing import Laid, logits_of_last, packed, padded
from engine.models.structure.adapter import Decoder
from engine.models.structure.cutting import by_gate
from engine.models.structure.read import Read
from engine.models.transformer import again, attached, first_of, keeping_calls

TOKENS = 8
LARGE = 1_000_000_000
"""From this many parameters on three layers stand for all where a check needs a pass per layer."""
ROUGHLY = 0.03
"""As a share of the largest logit, in 16 bits: how far apart texts may be that share a row."""
Hook = Callable[..., Any]
_WINDOWS = ("window_size", "sliding_window", "attention_chunk_size")
"""Settings by which a token sees only what is near it in its row."""
_FAILS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError)
"""What a model raises that is not made as it was read."""


def packs(model: nn.Module, adapter: Decoder, name: str) -> bool:
    """Whether texts that begin alike can share a row."""
    with torch.no_grad():
        return _Proof(model, adapter, name).texts_can_share_rows()


def proved(model: nn.Module, adapter: Any, name: str) -> Any:
    """The adapter, with what the loaded model showed. RequestError with what failed."""
    try:
        with torch.inference_mode(False):
            return _Proof(model, adapter, name).run()
    except RequestError:
        raise
    except _FAILS as error:
        if runtime.is_out_of_memory(error):
            raise
        what = f"eight tokens cannot be put through it as it was read ({said_by(error)})."
        fix = "Use another architecture; `inspect` says how one is read."
        raise refusal(name, f"{what} {adapter.how}", fix) from error


class _Proof:
    def __init__(self, model: Any, adapter: Any, name: str) -> None:
        self.model, self.adapter, self.name, self.layout = model, adapter, name, adapter.layout
        size, device = int(model.config.vocab_size), next(model.parameters()).device
        most = max(2, min(TOKENS, adapter.n_positions))
        self.ids = ((torch.arange(1, most + 1) * 7919 + 5) % size)[None].to(device)
        self.tolerance = min(0.1, 1e4 * torch.finfo(next(model.parameters()).dtype).eps)
        count = sum(parameter.numel() for parameter in model.parameters())
        layers = adapter.n_layers
        self.layers = range(layers) if count < LARGE else sorted({0, layers // 2, layers - 1})

    def run(self) -> Any:
        self.heads_are_in_order()
        with torch.no_grad():
            for layer in self.layers:
                self.a_head_acts_from_its_layer_on(layer)
            self.nothing_else_mixes_tokens()
            adapter = self.adapter
            if isinstance(adapter, Decoder):
                self.an_audit_can_run()
                if not self.passes_can_be_split():
                    adapter.splits = False
                    adapter.how += (
                        " Its passes cannot go on from the middle: every head off is a whole pass."
                    )
            if adapter.cuts and not self.heads_can_leave():
                adapter = adapter.zeroing(
                    "cut out, its attention did not give what it gives with them silenced"
                )
                adapter.splits = self.adapter.splits
        return adapter

    # 1 and 2

    @torch.enable_grad()
    def heads_are_in_order(self) -> None:
        layout = self.layout
        with self.traced() as found:
            self.logits(self.ids)
        for layer, (inside, leaves) in sorted(found.items()):
            if inside.shape[-1] != layout.heads * layout.width:
                self.refuse(
                    f"the output projection of layer {layer} is given {inside.shape[-1]} numbers."
                )
            touched = [self._touched(inside, leaves, head) for head in range(layout.heads)]
            for name in leaves:
                self._check_rows(layer, name, [one[name] for one in touched])

    def _touched(
        self, inside: torch.Tensor, leaves: dict[str, list[torch.Tensor]], head: int
    ) -> dict[str, torch.Tensor]:
        """Which outputs of each projection a head's slice depends on, [outputs] bool each."""
        width = self.layout.width
        weights = torch.cos(torch.arange(width, device=inside.device, dtype=inside.dtype) + 1)
        goal = (inside[..., head * width : (head + 1) * width] * weights).sum()
        flat = [leaf for some in leaves.values() for leaf in some]
        slopes = torch.autograd.grad(
            goal, flat, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        found, rest = {}, iter(slopes)
        for name, some in leaves.items():
            parts = [next(rest).float().abs().flatten(0, -2).amax(0) for _ in some]
            found[name] = (torch.stack(parts).amax(0) > 0).cpu()
        return found

    def _check_rows(self, layer: int, name: str, touched: Sequence[torch.Tensor]) -> None:
        layout = self.layout
        if not any(bool(one.any()) for one in touched):
            return  # a norm over all heads stands behind it and is looked at instead
        outputs = len(touched[0])
        shares = "heads" if outputs == layout.heads * layout.width else "groups"
        reads = {one.name: one for one in layout.reads}
        read = reads.get(name, Read(name, outputs, shares))  # else a norm: as what is before it
        for head, one in enumerate(touched):
            rows = layout.rows(read, head)
            outside = one.clone()
            outside[rows] = False
            if read.kind and not bool(outside.any()) and bool(one.any()):
                continue
            if not read.kind and self._apart(touched):
                return
            rest = [
                at
                for at in range(layout.heads)
                if at != head and bool(one[layout.rows(read, at)].any())
            ]
            what = f"head {rest[0]}'s" if rest else "other"
            self.refuse(
                f"heads do not lie one after the other: in layer {layer} the place of head "
                f"{head} depends on {what} outputs of {name}."
            )

    def _apart(self, touched: Sequence[torch.Tensor]) -> bool:
        """Of a projection whose layout is not known: each head reads outputs that no other group of
        heads reads."""
        size = self.layout.heads // self.layout.groups
        if self.layout.groups == 1:
            return True
        groups = [
            torch.stack(list(touched[at : at + size])).any(0) for at in range(0, len(touched), size)
        ]
        firsts = [int(one.nonzero()[0]) if bool(one.any()) else -1 for one in groups]
        return bool((torch.stack(groups).sum(0) <= 1).all()) and firsts == sorted(firsts)

    # 3

    def a_head_acts_from_its_layer_on(self, layer: int) -> None:
        heads = self.layout.heads
        gates = torch.ones(heads + 1, heads)
        gates[torch.arange(1, heads + 1), torch.arange(heads)] = 0
        with self.watched() as seen, self.gated({layer: gates}):
            logits = self.logits(self.ids.repeat(heads + 1, 1))
        if not bool(torch.isfinite(logits).all()):
            return  # damaged weights: said where the mask is proved
        for below in range(layer if not self.layout.depth else 0):
            if not self.near(seen[below][1:], seen[below][:1]):
                self.refuse(
                    f"silencing a head of layer {layer} changes the output of layer {below} below."
                )
        moved = (seen[layer][1:] - seen[layer][:1]).float().abs().flatten(1).amax(1)
        if not bool((moved > 0).any()):
            self.refuse(f"silencing heads of layer {layer} changes nothing in its output.")

    # 4

    def nothing_else_mixes_tokens(self) -> None:
        heads, last = self.layout.heads, len(self.layout.blocks) - 1
        other = self.ids.flip(1).clone()
        other[:, -1] = self.ids[:, -1]
        none = torch.zeros(1, heads)
        with self.watched() as seen, self.gated(dict.fromkeys(range(last + 1), none)):
            self.logits(torch.cat([self.ids, other]))
        mine, others = seen[last][0, -1], seen[last][1, -1]
        if bool(torch.isfinite(mine).all()) and not self.near(mine, others):
            self.refuse(
                "with all heads silenced a token still sees others: something else in its layers"
                " mixes tokens."
            )

    # 5

    def passes_can_be_split(self) -> bool:
        """Two texts, from the first block on, stacked twice; logits of what comes out."""
        model, adapter = self.model, self.adapter
        ids = torch.cat([self.ids, self.ids.flip(1), self.ids])
        calls: dict[int, Any] = {}
        wanted = self.logits(ids)
        blocks = adapter.blocks(model)
        try:
            with attached(keeping_calls(blocks, calls)):
                adapter.backbone(model)(
                    inputs_embeds=model.get_input_embeddings()(ids), use_cache=False
                )
            hidden = calls[0][0].repeat(2, 1, 1)
            for layer in range(adapter.n_layers):
                hidden = again(blocks[layer], hidden, calls[layer][1:], len(ids), 2)
            made = adapter.logits(model, hidden.flatten(0, 1)).view(2, *wanted.shape)
        except _FAILS:
            return False
        return all(self.near(one, wanted) for one in made)

    # 6

    def an_audit_can_run(self) -> None:
        """The calls that measure perplexity (likelihoods.py) and draw texts (decode.py)."""
        plain = self.logits(self.ids)
        if not bool(torch.isfinite(plain).all()):
            return  # damaged weights: said where the mask is proved
        below = self.adapter.backbone(self.model)(input_ids=self.ids, use_cache=False)
        logits = self.adapter.logits(self.model, below.last_hidden_state[0], normed=True)
        if not self.near(logits, plain[0]):
            self.refuse("its logits do not follow from what lies below its head.")
        try:
            ids = self.ids[:, min(2, self.ids.shape[1] - 2) :]
            made = logits_of_last(self.model, [self.ids[0].tolist(), ids[0].tolist()], padded)
        except _FAILS as error:
            if runtime.is_out_of_memory(error):
                raise
            self.refuse(f"no text can be drawn with what is kept of its tokens ({said_by(error)}).")
        if not self.near(made, self.logits(ids)[:, -1]):
            self.refuse(
                "a token drawn with what is kept of those before it is not the token of the whole"
                " text."
            )

    def texts_can_share_rows(self) -> bool:
        """Two texts that part in the middle, read in one row and in two, and in one with places
        counted along it. Each is the second once: the first in a row is what it is alone."""
        config: Any = self.model.config.get_text_config()
        if any(getattr(config, name, None) for name in _WINDOWS):
            return False
        self.tolerance = min(self.tolerance, ROUGHLY)
        ids = self.ids[0].tolist()
        texts = [ids, [*ids[: len(ids) // 2], *ids[::-1]][: max(2, len(ids) - 1)]]
        try:
            alone, shared, wrong = (
                torch.cat([logits_of_last(self.model, both, lay) for both in (texts, texts[::-1])])
                for lay in (padded, packed, self.along)
            )
        except _FAILS:
            return False
        return self.near(shared, alone) and not self.near(wrong, alone)

    def along(self, *of: Any) -> Laid:
        """As `packed`, but a token's place is the one in its row: what heeds places shows it."""
        one = packed(*of)
        places = torch.arange(one.batch.ids.shape[1], device=one.batch.ids.device)
        places = places.clamp(max=self.adapter.n_positions - 1).expand_as(one.batch.ids)
        return replace(one, batch=replace(one.batch, positions=places))

    # 7

    def heads_can_leave(self) -> bool:
        """One layer's attention in the model, cut and silenced."""
        heads, layer = self.layout.heads, len(self.layout.blocks) // 2
        if heads < 2:
            return True
        for dead in ((0,), (heads - 1,) if heads == 2 else (1, heads - 1), tuple(range(heads))):
            gates = torch.ones(1, heads)
            gates[0, list(dead)] = 0
            with self.gated({layer: gates}):
                wanted = self.logits(self.ids)
            block = self.model.get_submodule(self.layout.blocks[layer])
            kept = block.get_submodule(self.layout.attention)
            block.set_submodule(self.layout.attention, copy.deepcopy(kept))
            try:
                units = tuple((layer, head) for head in dead)
                self.adapter.cut_heads(self.model, HeadMask(self.adapter.n_layers, heads, units))
                if not self.near(self.logits(self.ids), wanted):
                    return False
            except _FAILS:
                return False
            finally:
                block.set_submodule(self.layout.attention, kept)
        return True

    # what the checks share

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        if self.adapter.causal:
            return self.model(input_ids=ids, use_cache=False).logits
        return self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits

    def refuse(self, what: str) -> None:
        fix = "Its heads cannot be audited one by one."
        raise refusal(self.name, f"({self.layout.model_type}) {what}", fix)

    @contextmanager
    def gated(self, gates: dict[int, torch.Tensor]) -> Iterator[None]:
        """Within it, heads are multiplied by gates [rows, heads], by layer."""
        hook = lambda layer: by_gate(gates[layer], self.layout.width)  # noqa: E731
        with attached(self.adapter.at_projections(self.model, gates, hook)):
            yield

    @contextmanager
    def traced(self) -> Iterator[dict[int, tuple[torch.Tensor, dict[str, list[torch.Tensor]]]]]:
        """Within it, a pass keeps what each output projection is given, as a function of what the
        other projections of its attention gave. By layer: the input [rows, tokens, heads * width]
        and the outputs by name."""
        found = {}
        open_: dict[int, dict[str, list[torch.Tensor]]] = {}

        def leaf(layer: int, name: str) -> Hook:
            def hook(module: nn.Module, args: tuple, made: torch.Tensor) -> torch.Tensor:
                made = made.detach().requires_grad_(True)
                open_.setdefault(layer, {}).setdefault(name, []).append(made)
                return made.clone()  # what follows may change it in place

            return hook

        def close(layer: int) -> Hook:
            return lambda module, args: found.update({layer: (args[0], open_.pop(layer, {}))})

        layout = self.layout
        layers = range(len(layout.blocks))
        leaves = (
            self.adapter.attention(self.model, layer)
            .get_submodule(name)
            .register_forward_hook(leaf(layer, name))
            for layer in layers
            for name in (*(read.name for read in layout.reads), *layout.mixing)
        )
        with (
            attached(leaves),
            attached(self.adapter.at_projections(self.model, layers, close)),
        ):
            yield found

    @contextmanager
    def watched(self) -> Iterator[dict[int, torch.Tensor]]:
        """Within it, a pass keeps what every block hands on, by layer."""
        seen = {}

        def note(layer: int) -> Hook:
            return lambda module, args, made: seen.update({layer: first_of(made)})

        with attached(
            self.model.get_submodule(name).register_forward_hook(note(layer))
            for layer, name in enumerate(self.layout.blocks)
        ):
            yield seen

    def near(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether two tensors differ by less than a share of the largest number."""
        one, other = one.double(), other.double()
        return bool((one - other).abs().max() <= self.tolerance * other.abs().max().clamp(min=1e-6))
