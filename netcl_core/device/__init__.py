"""Devices: which there are, what each can do, and which one is the default.

Owns the OpenCL runtimes of this machine and environment (`runtimes`), how the loader gets to see
them (`icd`), the test kernels that show what a device can do (`probing`), the one import of
pyopencl (`device`) and the table of devices (`device_table`). Imports the ground only.
"""
