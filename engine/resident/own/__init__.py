"""Questions of the kernel itself, whatever the track. One question, one file."""
