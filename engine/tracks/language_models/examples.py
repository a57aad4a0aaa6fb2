"""The same prompt before and after the cut, one per subgroup, not picked by hand."""

from __future__ import annotations

import pandas as pd

from engine.core import words
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Run

HIDDEN = "[hidden]"
LONGEST = 600


def examples(run: Run, choice: Choice, show_texts: bool = False) -> pd.DataFrame:
    """First test prompt of each subgroup by id, first seed: prompt, both continuations (unescaped), judge scores.

    Continuations are replaced by HIDDEN unless `show_texts`: a judge misses things, so all are hidden, not only those
    it calls toxic.
    """
    variant = lookup.variant_of(run, choice)["variant"]
    generations, prompts = lookup.frame(run, "generations"), lookup.frame(run, "prompts")
    here = generations[(generations["axis"] == choice.measured) & (generations["split"] == lookup.REPORTED)]
    here = here[here["seed"] == here["seed"].min()].merge(lookup.frame(run, "texts"), on="text_id")
    here = here[["variant", "prompt_id", "toxicity", "text"]]
    before, after = here[here["variant"] == "dense"], here[here["variant"] == variant]
    both = before.merge(after, on="prompt_id", suffixes=("_before", "_after"))
    both = both.merge(prompts[["prompt_id", "subgroup", "text"]], on="prompt_id")
    first = both.sort_values("prompt_id").drop_duplicates("subgroup").sort_values("subgroup")
    return pd.DataFrame({
        "subgroup": first["subgroup"].map(words.group_name),
        "prompt": first["text"],
        "before": _shown(first["text_before"], show_texts),
        "judge before": first["toxicity_before"],
        "after": _shown(first["text_after"], show_texts),
        "judge after": first["toxicity_after"],
    }).reset_index(drop=True)  # fmt: skip


def _shown(texts: pd.Series, show_texts: bool) -> pd.Series:
    return texts.str.slice(0, LONGEST) if show_texts else pd.Series(HIDDEN, index=texts.index)
