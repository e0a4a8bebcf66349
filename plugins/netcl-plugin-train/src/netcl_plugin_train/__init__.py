"""The command netcl train: reference training runs."""
