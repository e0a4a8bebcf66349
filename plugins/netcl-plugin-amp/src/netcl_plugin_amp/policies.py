"""The policies that come with the plugin, and the rule of each op in them.

As in PyTorch's autocast, products compute in the storage dtype, what sums many terms or grows
steeply in float32, and all else in what it is given. An op that is not named is of the last kind.
The norms of channels take halves with weights in float32, so that nothing between two convolutions
is stored in float32.
"""

from __future__ import annotations

from typing import Final

from netcl_plugin_amp.policy import AmpPolicy

#: Products: most of the work, and sums of products are added up in float32 in any case.
PRODUCTS: Final = (
    "matmul", "bmm", "linear", "linear_relu", "addmm", "einsum", "conv1d", "conv2d", "conv3d",
    "depthwise_conv2d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "scaled_dot_product_attention",
)  # fmt: skip
#: What leaves the range of half precision, or loses its digits there.
FLOAT32: Final = (
    "pow", "square", "exp", "expm1", "log", "log1p", "log2", "reciprocal", "rsqrt", "softplus",
    "sum", "prod", "cumsum", "cumprod", "var", "std", "norm", "logsumexp", "softmax", "log_softmax",
    "layer_norm", "rms_norm", "group_norm", "l2_normalize", "cosine_similarity",
    "pairwise_distance",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss", "kl_div", "weighted_bce",
    "weighted_smooth_l1", "fused_weighted_bce_smooth_l1_loss", "triplet_margin_loss",
    "margin_ranking_loss",
)  # fmt: skip
#: What reads halves beside weights and statistics in float32, and computes in float32.
MIXED: Final = ("batch_norm", "instance_norm")
#: What the host computes, which has no half precision.
HOST: Final = (
    "linalg_cholesky", "linalg_inv", "linalg_solve", "linalg_det", "linalg_slogdet", "linalg_qr",
    "linalg_eigh", "linalg_svd", "linalg_pinv", "linalg_lu", "fft_c2c", "cholesky", "inverse",
    "pinverse", "det", "slogdet", "logdet", "matrix_exp", "matrix_power", "lu", "qr", "svd",
    "cholesky_solve", "cholesky_inverse", "triangular_solve", "lu_solve", "lu_unpack",
    "svd_lowrank", "pca_lowrank", "quantile", "nanquantile",
)  # fmt: skip


def _policy(
    name: str, storage: str, doc: str, needs_fp16: bool = False, tolerance: float = 1e-2
) -> AmpPolicy:
    return AmpPolicy(
        name,
        storage,
        {
            **dict.fromkeys(PRODUCTS, "allow"),
            **dict.fromkeys((*FLOAT32, *HOST), "keep"),
            **dict.fromkeys(MIXED, "leave"),
        },
        default="promote",
        needs_fp16=needs_fp16,
        forbids=FLOAT32,
        tolerance=tolerance,
        doc=doc,
    )


POLICIES: Final = (
    _policy(
        "fp16",
        "float16",
        "Products in float16, on devices that compute in half precision; float32 on others.",
        needs_fp16=True,
    ),
    _policy(
        "fp16-storage",
        "float16",
        "Products of float16 values on every device: they are stored as half and computed in "
        "float32.",
    ),
    _policy(
        "bf16-storage",
        "bfloat16",
        "Products of bfloat16 values on every device: the range of float32 in half the memory, "
        "with three digits.",
        tolerance=4e-2,
    ),
)
