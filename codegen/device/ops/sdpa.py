"""Scaled dot product attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def sdpa(
    kernels: Kernels,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float = 1.0,
    softcapping: float = 1.0,
    parts: int | None = None,
) -> Tensor:
    """softmax(q k^T * scale + mask) v: q (b, h, m, d), k (b, g, n, d), v (b, g, n, e) to (b, h, m, e), contiguous.

    h is a multiple of g; query head i uses key head i * g // h. The mask is (b, h, m, n). All are of one type: f16,
    bf16 or f32. The mask may be any view, the others any whose last dimension is contiguous. With a `softcapping` c
    other than 1, scores are c * tanh(q k^T * scale / c). `causal` hides from query i the keys from i + 1 + n - m on; a
    mask overrides it. `parts` asks for the form of few queries, with the keys of a head dealt to that many blocks (or
    fewer; packed operands of up to 256 columns take it), 0 for the form of many queries; the sizes decide otherwise.

    Raises ValueError for shapes that do not fit together, and for a last dimension that is not contiguous.
    """
    if (k.shape[0], *v.shape[:3], k.shape[3]) != (q.shape[0], *k.shape[:3], q.shape[3]) or not _shares(q, k):
        raise ValueError(f"queries {q.shape}, keys {k.shape} and values {v.shape} do not fit together")
    if mask and mask.shape != (*q.shape[:3], k.shape[2]):
        raise ValueError(f"the mask has to be {(*q.shape[:3], k.shape[2])}, not {mask.shape}")
    operands = {"q": q, "k": k, "v": v, "mask": mask, "scale": scale, "softcapping": softcapping}
    shape = (*q.shape[:3], v.shape[3])
    return made(kernels, "sdpa", shape, q.dtype, **operands, causal=causal, parts=parts)


def _shares(q: Tensor, k: Tensor) -> bool:
    """Whether as many heads of queries share each head of keys."""
    return k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0
