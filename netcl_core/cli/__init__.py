"""The `netcl` command."""
