"""Optimizers for netcl: one kernel per step."""
