"""Heads of language models, chosen by bias and perplexity: FASP (Zayed et al. 2024)."""

from engine.audit.tracks import TrackEntry

TRACK = TrackEntry(
    __name__,
    "Attention heads of a language model",
    place=1,
    question="asks:Prompt",
    asks="cut heads of a language model, see who pays",
    request="request:AuditRequest",
    benchmarks="panels.benchmarks:BENCHMARKS",
    prediction="track:PREDICTION",
    published="track:PUBLISHED",
    shelves="track:shelves",
    grow="growing:grow",
    check_growth="growing:check_growth",
    told="growing:told",
    inspect="request:inspected",
    quick="request:QUICK",
    measure="run:measure_by_hand",
)
