"""`python benchmarks [ITEM...]`: compares netcl with other libraries; docs/benchmarks.md."""

from __future__ import annotations

from harness.command import bench

if __name__ == "__main__":
    bench(prog_name="python benchmarks")
