"""Units silenced by a mask, cut for real, recorded and replayed; masked, cut and reloaded models
agree."""
