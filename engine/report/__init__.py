"""From a run to what a person sees and takes away: phrasing, figures, report, model card,
bundle."""
