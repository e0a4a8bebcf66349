"""Which implementation serves a call, and with which settings.

`offers_of` lists who could serve an op, and `resolve` decides among them. A `Tuner`, entered with
`tuning_by`, may set the settings of calls, and meets the calls that it wants while they run.
"""

from __future__ import annotations

from netcl_core.ops.choosing import offers_of as offers_of
from netcl_core.ops.choosing import resolve as resolve
from netcl_core.ops.choosing import unfit as unfit
from netcl_core.ops.composition import implemented as implemented
from netcl_core.ops.functions import missing as missing
from netcl_core.ops.operators import DECOMPOSITION as DECOMPOSITION
from netcl_core.ops.tuning import ChosenSettings as ChosenSettings
from netcl_core.ops.tuning import Offered as Offered
from netcl_core.ops.tuning import Place as Place
from netcl_core.ops.tuning import Tuner as Tuner
from netcl_core.ops.tuning import default_of as default_of
from netcl_core.ops.tuning import misfit as misfit
from netcl_core.ops.tuning import told as told
from netcl_core.ops.tuning import tuning_by as tuning_by
from netcl_core.ops.user_errors import MISTAKES as MISTAKES
from netcl_core.ops.user_errors import names_an_op as names_an_op
from netcl_core.ops.user_errors import raise_named as raise_named
from netcl_core.tensors.functions import functions as functions
