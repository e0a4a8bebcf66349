"""Loss functions for netcl."""
