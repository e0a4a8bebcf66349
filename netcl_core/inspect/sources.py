"""How ops become kernels: regions of fused ops, their plans, and their sources.

A `Region` is a group of elementwise steps that become one kernel; `infer` gives the types of its
values, `plan` says how it is launched, and `forward_source`, `backward_source` and `numpy_source`
write it. Templates of plugins are rendered in a sandbox, by `get_template`.
"""

from __future__ import annotations

from netcl_core.codegen.emit import PLAIN as PLAIN
from netcl_core.codegen.emit import OpenCLPrinter as OpenCLPrinter
from netcl_core.codegen.emit import SlotAccess as SlotAccess
from netcl_core.codegen.emit import dialect_of as dialect_of
from netcl_core.codegen.emit import numpy_source as numpy_source
from netcl_core.codegen.generation import backward_source as backward_source
from netcl_core.codegen.generation import forward_source as forward_source
from netcl_core.codegen.generation import load_text as load_text
from netcl_core.codegen.generation import number as number
from netcl_core.codegen.generation import store_text as store_text
from netcl_core.codegen.layout import Layout as Layout
from netcl_core.codegen.layout import collapse as collapse
from netcl_core.codegen.lowering import Plan as Plan
from netcl_core.codegen.lowering import plan as plan
from netcl_core.codegen.region import ADDED as ADDED
from netcl_core.codegen.region import SAME as SAME
from netcl_core.codegen.region import KernelProgram as KernelProgram
from netcl_core.codegen.region import PrimitiveStep as PrimitiveStep
from netcl_core.codegen.region import Ref as Ref
from netcl_core.codegen.region import Region as Region
from netcl_core.codegen.region import Signature as Signature
from netcl_core.codegen.region import Types as Types
from netcl_core.codegen.region import differentiable as differentiable
from netcl_core.codegen.region import forward_program as forward_program
from netcl_core.codegen.region import infer as infer
from netcl_core.ops.public_function import primitive_function as primitive_function
from netcl_core.runtime.rendering import edition as edition
from netcl_core.runtime.rendering import environment as environment
from netcl_core.runtime.rendering import folder_of as folder_of
from netcl_core.runtime.rendering import get_template as get_template
from netcl_core.runtime.rendering import render as render
from netcl_core.runtime.signatures import kernels_in as kernels_in
from netcl_core.runtime.signatures import read_only as read_only
from netcl_core.tape.region_call import record_region as record_region
