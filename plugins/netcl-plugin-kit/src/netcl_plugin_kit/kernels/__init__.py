"""The kernels of ops: what they look like on a device, and which templates plugins offer."""
