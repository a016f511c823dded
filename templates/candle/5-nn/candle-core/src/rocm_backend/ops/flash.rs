//! Flash attention: windows, slopes, and sequences of different lengths.
use super::operand::{kernel_form, uninit, Operand};
use crate::rocm_backend::flash_attn::{FlashAttn, Sequences};
use crate::rocm_backend::nn_plan::{self, Attention, Flash, Scores, Table, Window};
use crate::rocm_backend::plan::table::sdpa as table;
use crate::rocm_backend::plan::{self, Pointer, View};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{Layout, Result, Shape, Storage, Tensor};

const OP: &str = "flash-attn";

/// What `flash_attn::flash_attn` and its siblings compute of q, k and v: the result has q's shape and is contiguous.
pub(crate) fn flash_attn(
    operands: [(&RocmStorage, &Layout); 3],
    asked: &FlashAttn,
    sequences: Option<&Sequences>,
) -> Result<(RocmStorage, Shape)> {
    let operands = operands.map(|(storage, layout)| Operand::new(storage, layout));
    let [q, k, v] = operands;
    for other in [k, v] {
        if other.dtype() != q.dtype() || other.device() != q.device() {
            crate::bail!("{OP}: queries, keys and values have one type and lie on one device")
        }
    }
    let paged = sequences.is_some_and(|sequences| sequences.pages.is_some());
    let rank = |with_batch: bool| if with_batch { 4 } else { 3 };
    let ranks = [
        rank(sequences.is_none()),
        rank(sequences.is_none() || paged),
    ];
    let views = [
        HeadsFirst::of(q.layout, ranks[0])?,
        HeadsFirst::of(k.layout, ranks[1])?,
        HeadsFirst::of(v.layout, ranks[1])?,
    ];
    let [[batch, heads, _, depth], [entries, key_heads, keys, _], _] =
        views.each_ref().map(|view| view.shape);
    let expected = [if paged { entries } else { batch }, key_heads, keys, depth];
    if views[1].shape != expected || views[2].shape != expected {
        crate::bail!(
            "{OP}: queries {:?}, keys {:?} and values {:?} do not fit together",
            q.layout.shape(),
            k.layout.shape(),
            v.layout.shape()
        )
    }
    if key_heads == 0 || heads % key_heads != 0 {
        crate::bail!("{OP}: {heads} heads of queries are no multiple of {key_heads} heads of keys")
    }
    let element = q.element(OP)?;
    kernel_form(
        &table::FLASH_TILES,
        table::FORM_64,
        &[element],
        q.dtype(),
        OP,
    )?;
    let given = Given(q.device());
    let slopes = given.optional(
        "alibi_slopes",
        &["f32"],
        asked.alibi_slopes.as_ref(),
        &[heads],
    )?;
    let shape = q.layout.shape().clone();
    let y = uninit(shape.elem_count(), q.dtype(), q.device())?;
    let planned = |at: usize| plan::Operand {
        base: operands[at].base(),
        size: operands[at].size(),
        view: views[at].view(),
    };
    let attention = Attention {
        q: planned(0),
        k: planned(1),
        v: planned(2),
        mask: None,
        element,
        scores: Scores {
            scale: asked.softmax_scale,
            softcapping: asked.softcap.unwrap_or(0.),
            causal: false,
        },
        flash: Some(Flash {
            window: Window {
                before: asked.window_size_left,
                after: asked.window_size_right,
            },
            slopes,
            sequences: match sequences {
                Some(sequences) => Some(given.sequences(sequences, keys)?),
                None => None,
            },
        }),
    };
    nn_plan::sdpa(q.device(), &attention, None, y.pointer())?;
    Ok((y, shape))
}

/// A tensor (batch, rows, heads, columns), or one without batch dimension, as (batch, heads, rows, columns).
struct HeadsFirst {
    shape: [usize; 4],
    strides: [usize; 4],
    offset: usize,
}

impl HeadsFirst {
    fn of(layout: &Layout, rank: usize) -> Result<Self> {
        let (dims, strides) = (layout.dims(), layout.stride());
        if dims.len() != rank {
            crate::bail!(
                "{OP}: a tensor of {rank} dimensions is needed, not {:?}",
                layout.shape()
            )
        }
        let swapped = |each: &[usize], first: usize| match each {
            [batch, rows, heads, columns] => [*batch, *heads, *rows, *columns],
            _ => [first, each[1], each[0], each[2]],
        };
        Ok(Self {
            shape: swapped(dims, 1),
            strides: swapped(strides, 0),
            offset: layout.start_offset(),
        })
    }

    fn view(&self) -> View<'_> {
        View {
            shape: &self.shape,
            strides: &self.strides,
            offset: self.offset,
        }
    }
}

/// Small tensors that a program gives beside the operands, which lie on this device.
struct Given<'a>(&'a RocmDevice);

impl Given<'_> {
    /// Where a contiguous tensor begins that has one of these types and this shape.
    fn start(
        &self,
        name: &str,
        types: &[&str],
        given: &Tensor,
        shape: &[usize],
    ) -> Result<Pointer> {
        let dtype = given.dtype().as_str();
        if !types.contains(&dtype) || given.dims() != shape {
            crate::bail!(
                "{OP}: {name} has to be {} {shape:?}, not {dtype} {:?}",
                types.join(" or "),
                given.dims()
            )
        }
        let (storage, layout) = given.storage_and_layout();
        match &*storage {
            Storage::Rocm(storage) if storage.device() == self.0 && layout.is_contiguous() => {
                Ok(Operand::new(storage, layout).start())
            }
            _ => {
                crate::bail!("{OP}: {name} has to be contiguous, and on the device of the queries")
            }
        }
    }

    fn optional(
        &self,
        name: &str,
        types: &[&str],
        given: Option<&Tensor>,
        shape: &[usize],
    ) -> Result<Option<Pointer>> {
        let start = |given| self.start(name, types, given, shape);
        given.map(start).transpose()
    }

    /// `of_page` are the keys of a page, if there are pages.
    fn sequences(&self, given: &Sequences, of_page: usize) -> Result<nn_plan::Sequences> {
        let ends = given.queries.dims1()?;
        let count = match ends.checked_sub(1) {
            None | Some(0) => crate::bail!("{OP}: seqlens_q has two numbers at least, not {ends}"),
            Some(count) => count,
        };
        let (mut pages, mut groups) = (None, None);
        if let Some(paged) = &given.pages {
            if paged.size != of_page {
                crate::bail!(
                    "{OP}: page_block_size is {}, but pages have {of_page} keys",
                    paged.size
                )
            }
            let of_entry = paged.table.dims2()?.1;
            let shape = [count, of_entry];
            let start = self.start("block_table", &["u32", "i32"], &paged.table, &shape)?;
            pages = Some(Table { start, of_entry });
            if let Some(ranges) = &paged.groups {
                let of_entry = ranges.dims3()?.1;
                let shape = [count, of_entry, 2];
                let start = self.start("mm_prefix_ranges", &["i32"], ranges, &shape)?;
                groups = Some(Table { start, of_entry });
            }
        }
        Ok(nn_plan::Sequences {
            queries: self.start("seqlens_q", &["u32"], &given.queries, &[ends])?,
            keys: self.start("seqlens_k", &["u32"], &given.keys, &[ends])?,
            count,
            most: given.most,
            pages,
            groups,
        })
    }
}
