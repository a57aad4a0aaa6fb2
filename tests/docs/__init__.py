"""The documents: as short as they promise, generated parts current, every path, command and link
real."""
