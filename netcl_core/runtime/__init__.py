"""The runtime: what a device is asked to do.

Owns the rendering of templates, built programs and their cache, device memory, kernel launches,
host calls, and the streams through which all of it goes. Imports `device` and the ground.
"""
