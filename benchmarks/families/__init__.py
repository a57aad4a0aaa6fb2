"""Which architectures are taken, and that what is said of their heads holds. One kind of
architecture, one file."""
