"""Statistics that know no model: resampling, several trials, reliability, gaps, fronts. Arrays in,
numbers out."""
