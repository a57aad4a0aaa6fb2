"""What an experiment is: a question of the paper, answered by one request or several, in full or quick size.

On the paper's own data set where it is given, with the paper's model and hyper-parameters; else on embedded images and
a small model, and the run says which. `quick` is a size for two CPU cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.data.images.load import look
from engine.tracks.image_classifiers.presets import PAPER, Preset, with_protocol
from engine.tracks.image_classifiers.request import ImageRequest

QUICK = {
    "method_settings": {
        "autobot": {"iterations": 60, "batch": 64, "rate": 0.85, "beta": 2.7},
        "taylor": {"rate": 0.01, "batch": 64, "every": 5, "count": 8},
    },
    "retrain": {"rate": 2e-3, "batch": 128, "epochs": 3},
}
"""Sizes for two CPU cores, small model."""
FULL_SMALL = {
    "method_settings": {
        "autobot": {"iterations": 200, "batch": 64, "rate": 0.85, "beta": 2.7},
        "taylor": {"rate": 0.01, "batch": 64, "every": 5, "count": 2},
    },
    "retrain": {"rate": 2e-3, "batch": 128, "epochs": 10},
}
"""Full size for the small model on embedded images."""
QUICK_LARGE = {
    "method_settings": {
        "autobot": {"iterations": 40, "batch": 32, "rate": 0.85, "beta": 2.7},
        "taylor": {"rate": 0.01, "batch": 32, "every": 3, "count": 24},
    },
    "retrain": {"rate": 1e-3, "batch": 64, "epochs": 2},
    "max_images": 2500,
}
"""Sizes for two CPU cores with the paper's own data and model: far too little training, good enough to see a trend."""
SMALL = "resnet10-w16"
"""The model for those embedded images that come without a trained one."""


@dataclass(frozen=True)
class ExperimentAsk:
    """data: path of the paper's data set, None for embedded images. model: None for the paper's or the embedded one."""

    data: str | None = None
    model: str | None = None
    weights: str | None = None
    quick: bool = False
    trials: int = 3
    first_seed: int = 0
    speedups: tuple[float, ...] = ()
    max_images: int | None = None
    train: dict[str, Any] | None = None
    """How the dense model is fitted first, where the experiment does not say it."""
    device: str = "auto"
    protocol: str = "paper"
    """Of presets.PROTOCOLS: as the paper says, or as its published code does."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment. Each is a row of `ROWS` in some file of this package."""

    name: str
    figure: str
    question: str
    dataset: str
    """The data set of presets.PAPER whose presets it takes."""
    stand_in: str
    """Embedded images it runs on where the data set is not given."""
    paper_model: str
    methods: tuple[str, ...] = ("autobot", "autobot+pw", "taylor", "taylor+pw", "random")
    axes: tuple[str, ...] = ()
    """Group columns; () for the data's usual ones."""
    full_speedups: tuple[float, ...] = ()
    """Targets on the paper's data; () for those of the preset."""
    quick_speedups: tuple[float, ...] = (4.0, 16.0)
    quick_images: int | None = 4000
    retrains: bool = False
    """Whether its data are changed, so that the dense model must be trained on the changed data first."""
    parts: tuple[Mapping[str, Any], ...] = ({},)
    """What differs between its requests: fields of an ImageRequest, one mapping per request."""

    def requests(self, ask: ExperimentAsk) -> list[ImageRequest]:
        """All requests, ready to be checked and run."""
        base = self._base(ask)
        parts = [with_protocol(dict(part), ask.protocol, self.dataset) for part in self.parts]
        return [replace(base, **{"title": self._title(base, part), **part}) for part in parts]

    def _base(self, ask: ExperimentAsk) -> ImageRequest:
        data = ask.data or self.stand_in
        model = ask.model or self._model(ask)
        preset = self._preset(model)
        fields: dict[str, Any] = dict(preset.request())
        if ask.data is None:
            sizes = {**QUICK, "max_images": self.quick_images} if ask.quick else FULL_SMALL
            fields |= {**sizes, "speedups": self.quick_speedups}
        elif ask.quick:
            fields |= {**QUICK_LARGE, "speedups": self.quick_speedups}
        elif self.full_speedups:
            fields["speedups"] = self.full_speedups
        fields |= {"speedups": ask.speedups} if ask.speedups else {}
        fields |= {"max_images": ask.max_images} if ask.max_images else {}
        train = self._train(ask, model, preset)
        return ImageRequest(
            model=model, data=data, axes=self.axes or look(data).default_groups,
            weights=self._weights(ask, model, preset),
            methods=self.methods, trials=ask.trials, first_seed=ask.first_seed, device=ask.device, train=train,
            experiment=self.name, **fields,
        )  # fmt: skip

    def _model(self, ask: ExperimentAsk) -> str:
        if ask.data is not None:
            return self.paper_model
        return "demo-resnet" if self.stand_in.startswith("avatars") and not self.retrains else SMALL

    def _preset(self, model: str) -> Preset:
        name = Path(model).name
        return PAPER.get((self.dataset, name)) or PAPER[self.dataset, self.paper_model]

    def _weights(self, ask: ExperimentAsk, model: str, preset: Preset) -> str | None:
        """The weights asked for; else, on the paper's own data, those that its training starts from."""
        from engine.models.load_image_classifier import is_architecture

        if ask.weights is not None or ask.data is None or not is_architecture(model):
            return ask.weights
        return preset.start

    def _train(self, ask: ExperimentAsk, model: str, preset: Preset) -> dict[str, Any] | None:
        """How the dense model is fitted first; None where it comes trained for these data."""
        from engine.models.load_image_classifier import is_architecture

        if ask.train is not None:
            return ask.train
        comes_trained = not is_architecture(model) or ask.weights not in (None, "imagenet")
        if comes_trained and not self.retrains:
            return None
        if ask.data is None:
            return {"rate": 3e-3, "batch": 128, "epochs": 12 if ask.quick else 30}
        if not ask.quick:
            return preset.train
        if comes_trained:
            return {"rate": 1e-3, "batch": 128, "epochs": 2}
        start = {"rate": 1e-3, "batch": 64, "epochs": 3}
        return {**start, "body_share": 0.1} if preset.start else {**start, "epochs": 10}

    def _title(self, base: ImageRequest, part: Mapping[str, Any]) -> str:
        return f"{self.name}: {Path(base.model).name} on {Path(base.data).name}"
