"""The runtime: what a device is asked to do.

Owns the rendering of templates, device memory, kernel launches, host calls, the streams through
which all of it goes, and the recording of what goes through one, to be done again.
Imports `device` and the ground.
"""
