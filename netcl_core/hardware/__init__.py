"""Devices: which there are, what is built for each, and which one is the default.

Owns the OpenCL runtimes of this machine and environment (`runtimes`), how the loader gets to see
them (`icd`), the one import of pyopencl (`device`), built programs and their cache (`programs`),
the test kernels that show what a device can do (`probing`) and the table of devices
(`device_table`). Imports the ground only.
"""
