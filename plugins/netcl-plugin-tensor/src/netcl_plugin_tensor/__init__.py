"""Shape ops, reductions and the softmax family for netcl."""
