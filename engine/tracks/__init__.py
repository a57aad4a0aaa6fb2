"""One folder per paper. A track imports everything below it and never another track; found by being here."""
