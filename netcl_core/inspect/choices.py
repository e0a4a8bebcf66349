"""Which implementation serves a call, and with which settings.

`offers_of` lists who could serve an op, and `resolve` decides among them. A `Tuner`, entered with
`tuning_by`, may set the settings of calls, and meets the calls that it wants while they run.
`own_records` are the user's; who changes one at `record_path` says so to `hold_record`.
"""

from __future__ import annotations

from netcl_core.ops import tuning_records as _records
from netcl_core.ops.amp_policies import Rule as Rule
from netcl_core.ops.choosing import offers_of as offers_of
from netcl_core.ops.choosing import resolve as resolve
from netcl_core.ops.choosing import unfit as unfit
from netcl_core.ops.functions import missing as missing
from netcl_core.ops.operators import DECOMPOSITION as DECOMPOSITION
from netcl_core.ops.tuning import ChosenSettings as ChosenSettings
from netcl_core.ops.tuning import Offered as Offered
from netcl_core.ops.tuning import Tuner as Tuner
from netcl_core.ops.tuning import default_of as default_of
from netcl_core.ops.tuning import misfit as misfit
from netcl_core.ops.tuning import told as told
from netcl_core.ops.tuning import tuning_by as tuning_by
from netcl_core.ops.tuning_records import FORM as FORM
from netcl_core.ops.tuning_records import HERE as HERE
from netcl_core.ops.tuning_records import VERSION as VERSION
from netcl_core.ops.tuning_records import Place as Place
from netcl_core.ops.tuning_records import Record as Record
from netcl_core.ops.user_errors import MISTAKES as MISTAKES
from netcl_core.tensors.functions import functions as functions

own_records, hold_record = _records.all_own, _records.hold
records_folder, record_path = _records.folder, _records.path_of
