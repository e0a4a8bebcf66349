"""The tape: what is computed, and what is recorded of it.

Owns nodes and tapes, `apply_op` (the one place where an op is run, traced or recorded), the reverse
pass, the modes, and the gradients that wait on the way. Imports `codegen`, `plugins` and what lies
below them.
"""
