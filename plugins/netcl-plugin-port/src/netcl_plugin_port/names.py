"""PyTorch's names that are another name's here: the table of them, by the place that they stand in.

A target is `module:attribute`, or `module:` for the module itself.
"""

from __future__ import annotations

from typing import Any, Final

_PORT: Final = "netcl_plugin_port"
_AUTOGRAD: Final = "netcl_core.autograd:"
_NN: Final = "netcl_core.nn:"
_DATA: Final = "netcl_core.utils.data:"


def _from(module: str, names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names.split()}


#: Module paths below `torch.nn`, all of whose names `nn` itself has.
_LAYERS: Final = """modules parameter activation adaptive batchnorm channelshuffle container
conv distance dropout flatten fold instancenorm lazy linear loss module normalization padding
pixelshuffle pooling rnn sparse transformer upsampling"""
_OPTIMIZERS: Final = """optimizer adadelta adagrad adam adamax adamw asgd lbfgs nadam radam rmsprop
rprop sgd"""

#: Functions of `nn.init` under their old names, without an underscore.
_INITS: Final = """constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse
uniform xavier_normal xavier_uniform"""

#: place -> name -> target
NAMES: Final[dict[str, dict[str, str]]] = {
    "torch": {
        **_from("math", "inf nan pi e"),
        **_from(
            f"{_PORT}.functions",
            """BoolTensor ByteTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
            _assert as_tensor from_numpy are_deterministic_algorithms_enabled can_cast compile finfo
            get_default_device get_default_dtype get_device_module get_num_threads
            iinfo inference_mode is_complex
            is_deterministic_algorithms_warn_only_enabled is_floating_point
            is_inference_mode_enabled is_nonzero is_storage is_tensor numel
            promote_types result_type set_default_device set_default_dtype
            set_default_tensor_type set_num_interop_threads set_num_threads set_printoptions
            set_warn_always typename use_deterministic_algorithms""",
        ),
        **_from(
            "netcl_plugin_linalg.precision",
            "get_float32_matmul_precision set_float32_matmul_precision",
        ),
        "GradScaler": "netcl_core.amp:GradScaler",
        "Size": "builtins:tuple",
        "asarray": f"{_PORT}.functions:asarray",
        "channels_last": f"{_PORT}.functions:CHANNELS_LAST",
        "channels_last_3d": f"{_PORT}.functions:CHANNELS_LAST",
        "contiguous_format": f"{_PORT}.functions:CONTIGUOUS",
        "distributed": f"{_PORT}.distributed:",
        "func": "netcl_core.autodiff:func",
        "ger": f"{_AUTOGRAD}outer",
        "dtype": "builtins:str",
        "layout": "builtins:str",
        "memory_format": "builtins:str",
        "mps": f"{_PORT}.cuda:",
        "preserve_format": f"{_PORT}.functions:CONTIGUOUS",
        "row_stack": f"{_AUTOGRAD}vstack",
        "strided": f"{_PORT}.functions:STRIDED",
        "vmap": "netcl_core.autodiff:func.vmap",
        "xpu": f"{_PORT}.cuda:",
    },
    "nn": {
        **dict.fromkeys(_LAYERS.split(), _NN),
        "DataParallel": f"{_PORT}.parallel:DataParallel",
        "NLLLoss2d": "netcl_core.nn:NLLLoss",
        "_BatchNorm": f"{_PORT}.classes:BatchNorm",
        "_ConvNd": f"{_PORT}.classes:Conv",
        "_InstanceNorm": f"{_PORT}.classes:InstanceNorm",
        "_Loss": f"{_PORT}.classes:Loss",
        "attention": f"{_PORT}.attention:",
        "parallel": f"{_PORT}.parallel:",
    },
    "nn.init": {
        name: f"netcl_core.nn:init.{name}_"
        for name in [
            "constant",
            "dirac",
            "eye",
            "kaiming_normal",
            "kaiming_uniform",
            "normal",
            "orthogonal",
            "sparse",
            "uniform",
            "xavier_normal",
            "xavier_uniform",
        ]
    },
    "nn.utils": {
        **_from(
            f"{_PORT}.vectors",
            """_ntuple _pair _single _triple consume_prefix_in_state_dict_if_present
            parameters_to_vector vector_to_parameters""",
        ),
        "clip_grad_norm": "netcl_core.optim:clip_grad_norm_",
        "clip_grad": "netcl_core.nn.utils:",
        "convert_parameters": f"{_PORT}.vectors:",
    },
    "optim": {
        **dict.fromkeys(_OPTIMIZERS.split(), "netcl_core.optim:"),
    },
    "optim.lr_scheduler": {"_LRScheduler": "netcl_core.optim:lr_scheduler.LRScheduler"},
    "nn.utils.stateless": {"functional_call": "netcl_core.autodiff:func.functional_call"},
    "utils": {"checkpoint": f"{_PORT}.checkpoint:"},
    "utils.data": {
        **dict.fromkeys(
            ("dataloader", "dataset", "distributed", "sampler", "_utils", "collate"), _DATA
        ),
        "default_convert": f"{_PORT}.functions:default_convert",
    },
    "autograd": {
        **_from(f"{_PORT}.functions", "Variable"),
        **dict.fromkeys(
            ("function", "grad_mode", "variable", "anomaly_mode"), "netcl_core.autograd:"
        ),
        "functional": "netcl_core.autodiff:functional",
        "gradcheck": "netcl_core.autodiff:gradcheck",
        "gradgradcheck": "netcl_core.autodiff:gradgradcheck",
        "inference_mode": f"{_PORT}.functions:inference_mode",
        "set_grad_enabled": "netcl_core:set_grad_enabled",
    },
    "amp": dict.fromkeys(("autocast_mode", "grad_scaler"), "netcl_core.amp:"),
    "jit": _from(
        f"{_PORT}.scripting", "export ignore is_scripting is_tracing script_if_tracing unused"
    ),
}


def target(place: str, name: str) -> Any:
    """The target of a name, or None."""
    return NAMES.get(place, {}).get(name)
