"""Masks and weights trained together under a fairness constraint: BiFP."""

from engine.audit.tracks import TrackEntry

TRACK = TrackEntry(
    __name__,
    "Filters or weights, with fair training",
    place=4,
    word="fairtrain",
    question="checkpoint:TrainedPicture",
    asks="train an image classifier to be sparse and fair in one run",
    request="request:FairRequest",
    validate="request:validate_fair",
    run="run:run_fair_audit",
    embedded="experiments.paper:REQUESTS",
)
