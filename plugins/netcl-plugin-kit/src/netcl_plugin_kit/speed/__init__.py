"""The speed of an op's candidates beside each other, in one run."""
