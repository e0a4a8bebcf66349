"""Ops: from a plugin's record to the function `ag.<op>`.

Owns the records of structured ops (`Operator`, `Implementation`), how one of several offers is
chosen, how a call's arguments are bound and its mistakes told, and what `why` and `kernels show`
say of an op. Imports `tape` and what lies below it.
"""
