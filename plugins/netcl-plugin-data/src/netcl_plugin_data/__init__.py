"""Data sets and loaders for netcl."""
