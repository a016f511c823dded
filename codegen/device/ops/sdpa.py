"""Scaled dot product attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Sequences:
    """Batch entries of different lengths: their queries lie one behind another, and so do their keys and values.

    `queries` and `keys` are u32 and have one number more than there are entries: where the rows of each begin, and
    where those of the last end. `most` says how many queries and keys an entry has at most.
    """

    queries: Tensor
    keys: Tensor
    most: tuple[int, int]
    pages: Tensor | None = None
    """u32 (entries, pages of an entry): keys and values are the pages' rows then, and `keys` only counts."""
    groups: Tensor | None = None
    """u32 with the bits of i32 (entries, groups, 2): first keys, and those behind the last, of groups of neighbours
    that see each other whatever the window is."""


@dataclass(frozen=True, slots=True)
class Flash:
    """What flash attention has beside other attention. A query that sees no key has zeros as its result, not NaN."""

    window: tuple[int | None, int | None] = (None, None)
    """Keys before a query's own place, and behind it, that it sees, None for all: query i of m is at place i + n - m of
    n keys."""
    slopes: Tensor | None = None
    """f32 (h): what a score loses for each place between query and key."""
    sequences: Sequences | None = None

    @property
    def is_paged(self) -> bool:
        """Whether keys and values are in pages."""
        return self.sequences is not None and self.sequences.pages is not None

    @property
    def planned(self) -> dict[str, object]:
        """As the planner takes it."""
        of = self.sequences
        names = ("queries", "keys", "most", "pages", "groups")
        sequences = of and {name: getattr(of, name) for name in names}
        return {"window": self.window, "slopes": self.slopes, "sequences": sequences}


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
    flash: Flash | None = None,
) -> Tensor:
    """softmax(q k^T * scale + mask) v: q (b, h, m, d), k (b, g, n, d), v (b, g, n, e) to (b, h, m, e).

    h is a multiple of g; query head i uses key head i * g // h. The mask is (b, h, m, n). All are of one type: f16,
    bf16 or f32. The mask may be any view, the others any whose last dimension is contiguous. With a `softcapping` c
    other than 1, and than 0 in flash attention, scores are c * tanh(q k^T * scale / c). `causal` hides from query i
    the keys from i + 1 + n - m on; a mask overrides it. `parts` asks for the form of few queries, with the keys of a
    head dealt to that many blocks (or fewer; packed operands of up to 256 columns take it), 0 for the form of many
    queries; the sizes decide otherwise.

    `flash`, which has neither a mask nor causality, is what flash attention has instead. Its result lies in memory as
    (b, m, h, e). With sequences, q is (1, h, all queries, d), k and v are (1, g, all keys, .) or (pages, g, keys of a
    page, .), and rows of the result that belong to no sequence are not written.

    Raises ValueError for shapes that do not fit together, and for a last dimension that is not contiguous.
    """
    batch = k.shape[0] if flash and flash.is_paged else q.shape[0]
    if (k.shape[0], *v.shape[:3], k.shape[3]) != (batch, *k.shape[:3], q.shape[3]) or not _shares(q, k):
        raise ValueError(f"queries {q.shape}, keys {k.shape} and values {v.shape} do not fit together")
    if mask and mask.shape != (*q.shape[:3], k.shape[2]):
        raise ValueError(f"the mask has to be {(*q.shape[:3], k.shape[2])}, not {mask.shape}")
    operands = {"q": q, "k": k, "v": v, "mask": mask, "scale": scale, "softcapping": softcapping}
    b, h, m, e = (*q.shape[:3], v.shape[3])
    if flash is None:
        return made(kernels, "sdpa", (b, h, m, e), q.dtype, **operands, causal=causal, parts=parts)
    y = made(kernels, "sdpa", (b, m, h, e), q.dtype, **operands, causal=False, parts=parts, flash=flash.planned)
    return y.transpose(0, 2, 1, 3)


def _shares(q: Tensor, k: Tensor) -> bool:
    """Whether as many heads of queries share each head of keys."""
    return k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0
