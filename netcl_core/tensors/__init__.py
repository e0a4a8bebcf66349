"""Tensors: data with a shape and a dtype on a device, its way from the host, and random numbers.

Knows nothing of gradients; Python's operators call the op of their name in `functions`. Imports
`runtime` and what lies below it.
"""
