"""Seeded faults that a plugin's cases have to notice, and the simulator that sees some of them."""
