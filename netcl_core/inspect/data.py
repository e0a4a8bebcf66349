"""What host data and files are to the engine: arrays, dtypes, and the cache folder's parts."""

from __future__ import annotations

from netcl_core import cache as _cache
from netcl_core.cache import Memo as Memo
from netcl_core.dtypes import FLOATS as FLOATS
from netcl_core.dtypes import NUMPY_OF_COMPUTE as NUMPY_OF_COMPUTE
from netcl_core.dtypes import Dtype as Dtype
from netcl_core.dtypes import category_of_scalar as category_of_scalar
from netcl_core.dtypes import is_floating as is_floating
from netcl_core.files import Scratch as Scratch
from netcl_core.runtime.geometry import Shape as Shape
from netcl_core.runtime.geometry import dense as dense
from netcl_core.tensors.host_data import Array as Array
from netcl_core.tensors.host_data import check_dtype as check_dtype
from netcl_core.tensors.storage import strided as strided

digest, programs_folder = _cache.digest, _cache.folder
