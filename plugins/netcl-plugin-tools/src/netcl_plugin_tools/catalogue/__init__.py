"""The catalogue: a static site and a package index, made of wheels and records alone."""
