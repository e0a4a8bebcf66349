"""Modules, layers and activations for netcl."""
