"""What a wheel says, read as a file that nobody trusts, and never imported; and how one is built.

The one reader of check, matrix and catalogue: an archive with limits, its metadata, the wheel.
"""
