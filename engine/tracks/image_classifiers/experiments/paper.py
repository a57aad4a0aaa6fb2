"""The figures of the performance-weighted loss paper: a question, what its requests hold, and what
it prints."""

from __future__ import annotations

from engine.audit.experiments import stated
from engine.tracks.image_classifiers.experiments._base import (
    AFFECTED,
    SHARE,
    FilterExperiment,
    Printed,
    Squares,
    after_pruning,
    changes_of_share,
)
from engine.tracks.image_classifiers.panels import pw
from engine.tracks.image_classifiers.panels.pw import ablation, pw_difference
from engine.tracks.image_classifiers.panels.speedup import groups_along_speedup

ALONG = (groups_along_speedup, pw_difference)

ROWS = (
    # AutoBot with every switch of the PW loss (weights, corrected labels; in pruning, in
    # retraining, in both).
    FilterExperiment(
        name="ablation",
        figure="Fig. 8",
        question="Which part of the PW loss matters, and where?",
        dataset="celeba",
        quick_data="avatars",
        paper_model="resnet18",
        quick_speedups=(16.0,),
        methods=(
            "autobot",
            "autobot+pw",
            "autobot+weights@prune",
            "autobot+labels@prune",
            "autobot+weights",
            "autobot+labels",
            "autobot+weights@retrain",
            "autobot+labels@retrain",
        ),
        stated=stated(
            "Sec. 4.7",
            rises=("weights", "labels", "weights@retrain", "labels@retrain", "pw"),
            stays=("weights@prune", "labels@prune"),
            about="change by the loss, male",
        ),
        draws=(ablation, *ALONG),
    ),
    # A yellow square in 98 % of the dog class and 2 % of the others; one digit stands in for the
    # dog.
    FilterExperiment(
        name="artefact",
        figure="Fig. 7, artefact",
        question=(
            "Does pruning make a model lean more on an artefact, and does the PW loss prevent it?"
        ),
        dataset="cifar10",
        quick_data="digits:100",
        paper_model="resnet56",
        axes=("class", "artefact", "class+artefact"),
        retrains=True,
        quick_speedups=(2.0, 4.0),
        parts=({"changes": ({"name": "artefact"},)},),
        stated=stated(
            "Sec. 4.6",
            rises=("autobot", "taylor"),
            about=f"change by the loss, pw, {AFFECTED}",
        ),
        draws=(pw.affected, *ALONG),
        reads=after_pruning,
        printed=(
            Printed("Sec. 4.6", "resnet56", "", 0.9957),
            Printed("Sec. 4.6", "resnet56", AFFECTED, 0.9914),
        ),
    ),
    # Balanced; five times as many of the majority group; five times as many of the majority class.
    # Each subset with a model trained on it.
    FilterExperiment(
        name="balance-subsets",
        figure="Fig. 5",
        question=(
            "Is the harm of pruning explained by how many training images a group or class has?"
        ),
        dataset="celeba",
        # The balanced subset has four times as many images as the rarest cell.
        quick_data="avatars:30000",
        paper_model="resnet18",
        retrains=True,
        full_speedups=(8.0, 32.0, 128.0),
        quick_speedups=(8.0, 32.0),
        quick_images=None,
        methods=("autobot", "taylor"),
        parts=tuple(
            {
                "changes": ({"name": "balance", "subset": kind},),
                "title": f"balance-subsets: {kind.replace('-', ' ')}",
            }
            for kind in ("balanced", "more-of-group", "more-of-class")
        ),
        stated=stated("Sec. 4.4.1", rises=("",), about="change of the gap of AUC"),
        draws=(groups_along_speedup,),
        printed=tuple(
            Printed("Sec. 4.4.1", "resnet18", group, value, part)
            for group, values in (
                ("male", (0.9562, 0.9479, 0.9183)),
                ("non-male", (0.9713, 0.9732, 0.9580)),
            )
            for part, value in enumerate(values)
        ),
    ),
    # Blond and other faces, of men and of all others. The paper also has VGG-16.
    FilterExperiment(
        name="celeba",
        figure="Fig. 1",
        question=(
            "Does pruning make the model worse for the group with few examples, and does the PW"
            " loss prevent it?"
        ),
        dataset="celeba",
        quick_data="avatars",
        paper_model="resnet18",
        quick_speedups=(4.0, 16.0, 48.0),
        stated=(
            *stated("Sec. 4.2.1", "change by the loss, pw, autobot", rises=("male", "non-male")),
            *stated("Sec. 4.2.1", "change by the loss, pw, taylor, male", rises=("16x",)),
            *stated(
                "Sec. 4.2.1",
                "change of the gap of AUC",
                rises=("autobot", "taylor", "random"),
                stays=("autobot+pw",),
            ),
            *stated(
                "Sec. 4.2.1",
                "change of the gap of AUC by the loss, pw",
                falls=("autobot", "taylor"),
            ),
        ),
        draws=ALONG,
        printed=(
            Printed("Sec. 4.2.1", "resnet18", "male", 0.9639),
            Printed("Sec. 4.2.1", "resnet18", "non-male", 0.9794),
            Printed("Sec. 4.2.1", "vgg16", "male", 0.9679),
            Printed("Sec. 4.2.1", "vgg16", "non-male", 0.9825),
        ),
    ),
    # The paper also has EfficientNetV2-S; handwritten digits stand in for the images.
    FilterExperiment(
        name="cifar10",
        figure="Fig. 3",
        question="What does the PW loss do to overall AUC where no group is known to be at risk?",
        dataset="cifar10",
        quick_data="digits:100",
        paper_model="resnet56",
        axes=("class",),
        quick_speedups=(2.0, 4.0),
        stated=stated(
            "Sec. 4.2.3", "change by the loss, pw, all images", rises=("autobot", "taylor")
        ),
        draws=ALONG,
        printed=(
            Printed("Sec. 4.2.3", "resnet56", "", 0.9957),
            Printed("Sec. 4.2.3", "efficientnet_v2_s", "", 0.9995),
        ),
    ),
    # Skin lesions, trained on light skin, tested on medium and dark skin; the paper also has
    # EfficientNetV2-M. Avatars by skin tone stand in for them, though they are trained on all
    # tones.
    FilterExperiment(
        name="fitzpatrick17k",
        figure="Fig. 2",
        question=(
            "Does pruning harm skin tones that the model was not trained on, and does the PW loss"
            " help there?"
        ),
        dataset="fitzpatrick17k",
        quick_data="avatars",
        paper_model="resnet34",
        axes=("skin",),
        stated=(
            *stated("Sec. 4.2.2", "change by the loss, pw", rises=("autobot", "taylor, 4x")),
            *stated("Sec. 4.2.2", "change of the gap of AUC", stays=("",)),
        ),
        draws=ALONG,
        printed=(
            Printed("Sec. 4.2.2", "resnet34", "medium", 0.8190),
            Printed("Sec. 4.2.2", "resnet34", "dark", 0.7329),
            Printed("Sec. 4.2.2", "efficientnet_v2_m", "medium", 0.8516),
            Printed("Sec. 4.2.2", "efficientnet_v2_m", "dark", 0.7524),
        ),
    ),
    # The same 200 batches with and without PW.
    FilterExperiment(
        name="loss-share",
        figure="Fig. 4",
        question=(
            "Whose images make up the loss while pruning, and what does the PW loss change about"
            " that?"
        ),
        dataset="celeba",
        quick_data="avatars",
        paper_model="resnet18",
        full_speedups=(16.0,),
        quick_speedups=(16.0,),
        methods=("autobot", "autobot+pw", "taylor", "taylor+pw"),
        parts=({"loss_share": 200},),
        stated=(
            *stated("Sec. 4.3", f"{SHARE}, autobot", rises=("male, blond",)),
            *stated(
                "Sec. 4.3", f"{SHARE}, taylor", rises=("male, not blond",), falls=("male, blond",)
            ),
            *stated("Sec. 4.3", SHARE, rises=("male, all classes",)),
        ),
        draws=(pw.loss_share,),
        reads=changes_of_share,
    ),
    # 80 % of the training images of cat and dog are taken away; two digits stand in for them.
    FilterExperiment(
        name="underrepresentation",
        figure="Fig. 7, underrepresentation",
        question=(
            "Do classes with few training images pay for pruning, and does the PW loss help them?"
        ),
        dataset="cifar10",
        quick_data="digits:100",
        paper_model="resnet56",
        axes=("class",),
        retrains=True,
        quick_speedups=(2.0, 4.0),
        parts=({"changes": ({"name": "underrepresent"},)},),
        stated=(
            *stated(
                "Sec. 4.5", f"change by the loss, pw, {AFFECTED}", rises=("autobot", "taylor, 2x")
            ),
            *stated("Sec. 4.5", f"change of AUC, {AFFECTED} minus all images", falls=("",)),
        ),
        draws=(pw.affected, *ALONG),
        reads=after_pruning,
        printed=(
            Printed("Sec. 4.5", "resnet56", "", 0.9948),
            Printed("Sec. 4.5", "resnet56", AFFECTED, 0.9880),
        ),
    ),
    Squares(),
)
