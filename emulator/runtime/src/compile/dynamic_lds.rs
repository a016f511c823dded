//! `extern __shared__ T name[];` as C++ that the host's compiler accepts.

/// What `__shared__` has become (emulator/include/hip/emulator/qualifiers.h).
const SHARED: &str = "__attribute__((candle_rocm_shared)) static thread_local";

/// The preprocessed source with each unsized array in dynamic LDS as a pointer to it, on the same line. That is what
/// `HIP_DYNAMIC_SHARED` makes; like it, it works inside of functions.
pub fn rewrite(preprocessed: &str) -> String {
    let mut rewritten = String::with_capacity(preprocessed.len());
    let mut rest = preprocessed;
    while let Some(at) = rest.find(SHARED) {
        let (before, from) = rest.split_at(at);
        let declaration = &from[SHARED.len()..];
        match (before.trim_end().strip_suffix("extern"), pointer(declaration)) {
            (Some(before), Some((pointer, end))) => {
                rewritten += before;
                rewritten += &pointer;
                rest = &declaration[end..];
            }
            _ => {
                rewritten += before;
                rewritten += SHARED;
                rest = declaration;
            }
        }
    }
    rewritten + rest
}

/// The pointer that stands for `type name[];`, and where the declaration ends.
fn pointer(declaration: &str) -> Option<(String, usize)> {
    let end = declaration.find(';')?;
    let array = declaration[..end].trim_end().strip_suffix(']')?.trim_end().strip_suffix('[')?.trim_end();
    let name_start = array.rfind(|c: char| !(c.is_alphanumeric() || c == '_'))? + 1;
    let (element, name) = array.split_at(name_start);
    let element = without_alignment(element.trim());
    Some((format!("{element}* const {name} = static_cast<{element}*>(candle_rocm_emulator::place.dynamic_lds)"), end))
}

/// A type without the alignment before it: dynamic LDS is aligned for every type.
fn without_alignment(element: &str) -> &str {
    for attribute in ["__attribute__", "alignas"] {
        if let Some(parenthesis) = element.strip_prefix(attribute) {
            let mut open = 0u32;
            let close = parenthesis.find(|c: char| {
                match c {
                    '(' => open += 1,
                    ')' => open -= 1,
                    _ => return false,
                }
                open == 0
            });
            return close.map_or(element, |close| without_alignment(parenthesis[close + 1..].trim_start()));
        }
    }
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(source: &str) -> String {
        rewrite(&source.replace("__shared__", SHARED))
    }

    #[test]
    fn unsized_arrays_become_pointers() {
        let pointer = "float* const x = static_cast<float*>(candle_rocm_emulator::place.dynamic_lds);";
        for declaration in [
            "extern __shared__ float x[];",
            "extern\n__shared__ float x [ ] ;",
            "extern __shared__ __attribute__((aligned(16))) float x[];",
            "extern __shared__ alignas(16) float x[];",
        ] {
            let text = rewritten(&format!("void f() {{ {declaration} x[0] = 1; }}"));
            assert_eq!(text.replace(" ;", ";"), format!("void f() {{ {pointer} x[0] = 1; }}"));
        }
    }

    #[test]
    fn what_stands_around_stays_where_it_is() {
        let at = |element: &str, name: &str| {
            format!("{element}* const {name} = static_cast<{element}*>(candle_rocm_emulator::place.dynamic_lds)")
        };
        let source =
            "int a; extern __shared__ double tile_2[];\n__shared__ int n;\nextern __shared__ unsigned char raw9[];b();";
        let expected =
            format!("int a; {};\n{SHARED} int n;\n{};b();", at("double", "tile_2"), at("unsigned char", "raw9"));
        assert_eq!(rewritten(source), expected);
        let aligned = "extern __shared__ __attribute__((aligned(sizeof(float4)))) alignas(16) half2 x[];";
        assert_eq!(rewritten(aligned), format!("{};", at("half2", "x")));
        for other in ["float x[]", "float x[2]", "x;[]", "float x][", "[]", "x[]"] {
            let is_array = other == "float x[]";
            assert!(!rewritten(&format!("extern __shared__ {other}")).contains("static_cast"), "{other}");
            let ended = rewritten(&format!("extern __shared__ {other};"));
            assert_eq!(ended.contains("static_cast<float*>"), is_array, "{other}");
        }
        assert_eq!(rewritten("nothing shared"), "nothing shared");
        assert_eq!(without_alignment("alignas(16"), "alignas(16");
    }

    #[test]
    fn sized_arrays_stay() {
        let text = "void f() { __shared__ float x[4]; __shared__ int n; extern int y[]; }";
        assert_eq!(rewritten(text), text.replace("__shared__", SHARED));
    }
}
