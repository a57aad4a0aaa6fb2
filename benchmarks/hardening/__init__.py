"""What breaking it finds: kills, flipped bits, bad inputs, attacks, many sessions. One way to break
it, one file."""
