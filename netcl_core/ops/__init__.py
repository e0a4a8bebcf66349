"""Ops: from a plugin's record to the function `ag.<op>`.

Owns the records of structured ops (`Operator`, `Implementation`) and of amp policies, how one of
several offers is chosen, in which dtypes an op computes (`casting`), how a call's arguments are
bound and its mistakes told, and what `why` and `sources` say of an op. Imports `tape` and
what lies below it.
"""
