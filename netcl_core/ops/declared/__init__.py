"""Ops that a manifest declares: built from its tables and templates, without any code of theirs."""
