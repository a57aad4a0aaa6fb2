"""Filters of image classifiers, cut with the performance-weighted loss (Meyer and Wong 2023)."""

from engine.audit.tracks import TrackEntry

TRACK = TrackEntry(
    __name__,
    "Filters or heads of an image classifier",
    place=3,
    question="checkpoint:Picture",
    asks="cut filters or heads of an image classifier, see who pays",
    claims="request:claims",
    request="request:ImageRequest",
    validate="request:validate_images",
    run="run:run_image_audit",
    shelves="track:shelves",
    embedded="experiments.paper:REQUESTS",
    grow="run:grow",
    check_growth="run:check_growth",
    told="run:told",
)
