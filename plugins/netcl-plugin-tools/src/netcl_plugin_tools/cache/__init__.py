"""The cache folder: what lies in it, and making it empty."""
