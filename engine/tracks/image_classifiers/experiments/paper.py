"""The experiments of the performance-weighted loss paper, by figure. Each is a question and what its requests hold."""

from __future__ import annotations

from engine.tracks.image_classifiers.experiments.base import Experiment

ROWS = (
    # AutoBot with every switch of the PW loss (weights, corrected labels; in pruning, in retraining, in both).
    Experiment(
        name="ablation",
        figure="Fig. 8",
        question="Which part of the PW loss matters, and where?",
        dataset="celeba",
        stand_in="avatars",
        paper_model="resnet18",
        quick_speedups=(16.0,),
        methods=(
            "autobot", "autobot+pw",
            "autobot+weights@prune", "autobot+labels@prune",
            "autobot+weights", "autobot+labels",
            "autobot+weights@retrain", "autobot+labels@retrain",
        ),
    ),
    # A yellow square in 98 % of the dog class and 2 % of the others; one digit stands in for the dog.
    Experiment(
        name="artefact",
        figure="Fig. 7",
        question="Does pruning make a model lean more on an artefact, and does the PW loss prevent it?",
        dataset="cifar10",
        stand_in="digits",
        paper_model="resnet56",
        axes=("class", "artefact", "class+artefact"),
        retrains=True,
        quick_speedups=(2.0, 4.0),
        parts=({"changes": ({"name": "artefact"},)},),
    ),
    # Balanced; five times as many of the majority group; five times as many of the majority class. Each subset with a
    # model trained on it.
    Experiment(
        name="balance-subsets",
        figure="Fig. 5",
        question="Is the harm of pruning explained by how many training images a group or class has?",
        dataset="celeba",
        stand_in="avatars:30000",  # the balanced subset has four times as many images as the rarest cell
        paper_model="resnet18",
        retrains=True,
        full_speedups=(8.0, 32.0, 128.0),
        quick_speedups=(8.0, 32.0),
        quick_images=None,
        methods=("autobot", "taylor"),
        parts=tuple(
            {"changes": ({"name": "balance", "subset": kind},), "title": f"balance-subsets: {kind.replace('-', ' ')}"}
            for kind in ("balanced", "more-of-group", "more-of-class")
        ),
    ),
    # Blond and other faces, of men and of all others. The paper also has VGG-16.
    Experiment(
        name="celeba",
        figure="Fig. 1",
        question="Does pruning make the model worse for the group with few examples, and does the PW loss prevent it?",
        dataset="celeba",
        stand_in="avatars",
        paper_model="resnet18",
        quick_speedups=(4.0, 16.0, 48.0),
    ),
    # The paper also has EfficientNetV2-S; handwritten digits stand in for the images.
    Experiment(
        name="cifar10",
        figure="Fig. 3",
        question="What does the PW loss do to overall AUC where no group is known to be at risk?",
        dataset="cifar10",
        stand_in="digits",
        paper_model="resnet56",
        axes=("class",),
        quick_speedups=(2.0, 4.0),
    ),
    # Skin lesions, trained on light skin, tested on medium and dark skin; the paper also has EfficientNetV2-M. Avatars
    # by skin tone stand in for them, though they are trained on all tones.
    Experiment(
        name="fitzpatrick17k",
        figure="Fig. 2",
        question="Does pruning harm skin tones that the model was not trained on, and does the PW loss help there?",
        dataset="fitzpatrick17k",
        stand_in="avatars",
        paper_model="resnet34",
        axes=("skin",),
    ),
    # The same 200 batches with and without PW.
    Experiment(
        name="loss-share",
        figure="Fig. 4",
        question="Whose images make up the loss while pruning, and what does the PW loss change about that?",
        dataset="celeba",
        stand_in="avatars",
        paper_model="resnet18",
        full_speedups=(16.0,),
        quick_speedups=(16.0,),
        methods=("autobot", "autobot+pw", "taylor", "taylor+pw"),
        parts=({"loss_share": 200},),
    ),
    # 80 % of the training images of cat and dog are taken away; two digits stand in for them.
    Experiment(
        name="underrepresentation",
        figure="Fig. 7",
        question="Do classes with few training images pay for pruning, and does the PW loss help them?",
        dataset="cifar10",
        stand_in="digits",
        paper_model="resnet56",
        axes=("class",),
        retrains=True,
        quick_speedups=(2.0, 4.0),
        parts=({"changes": ({"name": "underrepresent"},)},),
    ),
)  # fmt: skip
