"""Heads of text classifiers, scored by attribution of attention, and winning tickets (thesis,
chapter 6)."""

from engine.audit.tracks import TrackEntry

TRACK = TrackEntry(
    __name__,
    "Attention heads of a text classifier",
    place=2,
    word="tickets",
    question="sentence:Sentence",
    asks="cut heads of a text classifier, find winning tickets",
    request="request:TextRequest",
    validate="request:validate_text",
    run="run:run_text_audit",
    shelves="track:shelves",
    grow="growing:grow",
    check_growth="growing:check_growth",
    told="growing:told",
)
