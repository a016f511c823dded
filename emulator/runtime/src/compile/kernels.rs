//! Finds the kernels in a preprocessed source, where those that macros made are plain to see.

use std::fmt::Write;

use super::target::PLACEHOLDER;
use super::{edition, lowered_name};

/// What `__global__` and `__launch_bounds__` have become (emulator/include/hip/emulator/qualifiers.h).
const KERNEL: &str = "candle_rocm_kernel";
const LAUNCH_BOUNDS: &str = "candle_rocm_launch_bounds";

/// A kernel of C linkage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kernel {
    name: String,
    /// The namespaces that it is defined in: `::outer::inner`.
    scope: String,
    /// The expression in its launch bounds.
    max_threads: Option<String>,
}

/// The source with a description of its kernels appended.
pub fn with_table(preprocessed: &str, expressions: &[String]) -> String {
    let described = |name: &str, kernel: &str, bounds: Option<&str>| {
        let bounds = bounds.unwrap_or("0");
        format!("    candle_rocm_emulator::describe<{kernel}>(\"{name}\", static_cast<unsigned>({bounds})),\n")
    };
    let mut table = String::new();
    for kernel in find(preprocessed) {
        table +=
            &described(&kernel.name, &format!("&{}::{}", kernel.scope, kernel.name), kernel.max_threads.as_deref());
    }
    for (index, expression) in expressions.iter().enumerate() {
        table += &described(&lowered_name(index), &format!("&{expression}"), None);
    }
    let mut unit = String::with_capacity(preprocessed.len() + table.len() + 1024);
    let _ = write!(
        unit,
        "{preprocessed}\n# 1 \"table of kernels\"\n\
         static const candle_rocm_emulator::Kernel candle_rocm_emulator_kernels[] = {{\n{table}    {{}}}};\n\
         extern \"C\" __attribute__((visibility(\"default\"))) const candle_rocm_emulator::Module candle_rocm_emulator_module = {{\n\
         {abi}, sizeof(candle_rocm_emulator_kernels) / sizeof(candle_rocm_emulator::Kernel) - 1, candle_rocm_emulator_kernels,\n\
         const_cast<candle_rocm_emulator::Runtime*>(&candle_rocm_emulator::runtime),\n\
         const_cast<candle_rocm_emulator::Place*>(&candle_rocm_emulator::place), \"{PLACEHOLDER}\"}};\n\
         extern \"C\" __attribute__((visibility(\"default\"))) const char candle_rocm_emulator_edition[] = \"{edition}\";\n",
        abi = crate::module::abi::VERSION,
        edition = edition(),
    );
    unit
}

/// The definitions of kernels with C linkage, in order, each once.
fn find(preprocessed: &str) -> Vec<Kernel> {
    let mut scan = Scan { tokens: Tokens(preprocessed).collect(), position: 0, braces: Vec::new() };
    let mut kernels: Vec<Kernel> = Vec::new();
    while let Some(kernel) = scan.next_kernel() {
        if !kernels.iter().any(|known| known.name == kernel.name) {
            kernels.push(kernel);
        }
    }
    kernels
}

struct Scan<'a> {
    tokens: Vec<&'a str>,
    position: usize,
    /// What each open brace opened.
    braces: Vec<Opened<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened<'a> {
    Linkage,
    Namespace(&'a str),
    Other,
}

impl Scan<'_> {
    fn next_kernel(&mut self) -> Option<Kernel> {
        // From what ends the declaration before it.
        let mut declaration = self.position;
        while let Some(&token) = self.tokens.get(self.position) {
            match token {
                "{" => {
                    self.braces.push(match self.tokens[..self.position] {
                        [.., "extern", "\"C\""] => Opened::Linkage,
                        [.., "namespace", name] => Opened::Namespace(name),
                        _ => Opened::Other,
                    });
                    declaration = self.position;
                }
                "}" => {
                    self.braces.pop();
                    declaration = self.position;
                }
                ";" => declaration = self.position,
                KERNEL => {
                    let (start, end) = (declaration, self.position);
                    let has_c_linkage = self.tokens[start..end].windows(2).any(|pair| pair == ["extern", "\"C\""])
                        || self.braces.last() == Some(&Opened::Linkage);
                    let is_template = self.tokens[start..end].contains(&"template");
                    let kernel = self.signature();
                    if has_c_linkage && !is_template && kernel.is_some() {
                        return kernel;
                    }
                    continue;
                }
                _ => {}
            }
            self.position += 1;
        }
        None
    }

    /// Name and launch bounds of the function whose declaration goes on here; none if it is only declared.
    fn signature(&mut self) -> Option<Kernel> {
        let mut max_threads = None;
        let mut name = None;
        while let Some(&token) = self.tokens.get(self.position) {
            self.position += 1;
            match token {
                LAUNCH_BOUNDS => max_threads = Some(self.parenthesised()),
                "__attribute__" | "__attribute" => {}
                // Parameters follow the name; other parentheses belong to attributes and are looked into.
                "(" if name.is_some() && self.tokens[self.position - 2] == name.unwrap_or_default() => {
                    self.position -= 1;
                    self.parenthesised();
                    break;
                }
                _ if is_identifier(token) => name = Some(token),
                _ => {}
            }
        }
        let declared_only = self.tokens.get(self.position) == Some(&";");
        let scope = self.scope();
        name.filter(|_| !declared_only).map(|name| Kernel { name: name.to_owned(), scope, max_threads })
    }

    fn scope(&self) -> String {
        let names = self.braces.iter().filter_map(|opened| match opened {
            Opened::Namespace(name) => Some(format!("::{name}")),
            _ => None,
        });
        names.collect()
    }

    /// The text of a parenthesis that opens here, with its own.
    fn parenthesised(&mut self) -> String {
        let start = self.position;
        let mut depth = 0;
        while let Some(&token) = self.tokens.get(self.position) {
            self.position += 1;
            match token {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        self.tokens[start..self.position].join(" ")
    }
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Identifiers, numbers, strings and single characters of preprocessed C++, without line markers.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start();
            if !self.0.starts_with('#') {
                break;
            }
            self.0 = self.0.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let first = self.0.chars().next()?;
        let length = match first {
            '"' | '\'' => quoted(self.0, first),
            'R' if self.0[1..].starts_with('"') => raw_string(self.0),
            _ if first.is_alphanumeric() || first == '_' => word(self.0),
            _ => first.len_utf8(),
        };
        let (token, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// Bytes of an identifier or number. A number may hold quotes: 1'000.
fn word(text: &str) -> usize {
    let number = text.starts_with(|first: char| first.is_ascii_digit());
    text.find(|c: char| !(c.is_alphanumeric() || c == '_' || number && c == '\'')).unwrap_or(text.len())
}

/// Bytes of a string or character with escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = true; // The opening quote does not end it.
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of R"delimiter(...)delimiter".
fn raw_string(text: &str) -> usize {
    let delimiter = text[2..].split('(').next().unwrap_or_default();
    let end = format!("){delimiter}\"");
    text.find(&end).map_or(text.len(), |at| at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBAL: &str = "__attribute__((candle_rocm_kernel))";

    fn names(source: &str) -> Vec<String> {
        find(&source.replace("__global__", GLOBAL)).into_iter().map(|kernel| kernel.name).collect()
    }

    #[test]
    fn kernels_of_c_linkage_are_found() {
        assert_eq!(names("extern \"C\" __global__ void one(float* x, int n) { x[n] = 1; }"), ["one"]);
        assert_eq!(
            names("extern \"C\" { __global__ void a() {} int f(); __global__ void b() { if (1) {} } }"),
            ["a", "b"]
        );
        assert_eq!(names("__global__ void mangled() {} template <class T> __global__ void t(T) {}"), [""; 0]);
        assert_eq!(names("extern \"C\" __global__ void declared(int);"), [""; 0]);
    }

    #[test]
    fn what_stands_before_a_kernel_hides_it_not() {
        let kernel = |name: &str| format!("extern \"C\" __global__ void {name}(int n) {{ n = 1; }}");
        for before in [
            "int n = 1;",
            "struct Rows { int R; };",
            "const char* s = \"\\\"\";",
            "const char* s = \"\\\\\";",
            "char c = '\\''; char d = '{';",
            "auto s = R\"x(})\" {)x\";",
            "auto s = R\"({)\";",
            "long m = 1'000'000;",
            "# 1 \"}\"\n",
            "extern \"C\" __global__ void later(int);",
            "template <class T> __global__ void t(T) {}",
            "int _1 = 2, a_b3 = 4;",
        ] {
            let source = format!("{before} {} {}", kernel("_first"), kernel("second2"));
            assert_eq!(names(&source), ["_first", "second2"], "{before}");
            let block = format!("{before} extern \"C\" {{ {before} __global__ void inner() {{}} }}");
            assert_eq!(names(&block), ["inner"], "{before}");
        }
        let wide = "extern \"C\" { int c = L'{'; __global__ void g() {} template <class T> __global__ void t(T) {} }";
        assert_eq!(names(wide), ["g"]);
        assert_eq!(names(&format!("{} {}", kernel("twice"), kernel("twice"))), ["twice"]);
        assert_eq!(names("extern \"C\" { void h() {} } __global__ void mangled() {}"), [""; 0]);
    }

    #[test]
    fn tokens_are_words_quoted_texts_and_single_characters() {
        let tokens = |text: &'static str| Tokens(text).collect::<Vec<_>>();
        assert_eq!(tokens("a_1 = 2'5u + R\"(x y)\"_z;"), ["a_1", "=", "2'5u", "+", "R\"(x y)\"", "_z", ";"]);
        assert_eq!(tokens("f('\\'', \"a\\\"b\") R L'x'"), ["f", "(", "'\\''", ",", "\"a\\\"b\"", ")", "R", "L", "'x'"]);
        assert_eq!(tokens(" # 1 \"x\"\n #pragma y\n  \u{e9}t\u{e9} \u{2192}#z"), ["\u{e9}t\u{e9}", "\u{2192}"]);
        assert_eq!(tokens("\"open"), ["\"open"]);
        assert_eq!(tokens("R\"(open"), ["R\"(open"]);
    }

    #[test]
    fn kernels_in_namespaces_are_found_with_their_scope() {
        let kernel = format!("extern \"C\" {GLOBAL} void f() {{}}");
        let source = format!("namespace a {{ namespace b {{ struct S {{ int f(); }}; {kernel} }} }}");
        let found = find(&source);
        assert_eq!((found[0].name.as_str(), found[0].scope.as_str()), ("f", "::a::b"));
    }

    #[test]
    fn what_looks_like_a_kernel_in_a_string_is_none() {
        assert_eq!(names("const char* s = \"extern \\\"C\\\" __global__ void f() {\"; char c = '\"';"), [""; 0]);
        assert_eq!(names("auto s = R\"x(extern \"C\" __global__ void f() {})x\"; int n = 1'000;"), [""; 0]);
        assert_eq!(names("# 1 \"a {\"\nextern \"C\" __global__ void g() {}"), ["g"]);
    }

    #[test]
    fn launch_bounds_may_stand_on_both_sides_of_void() {
        for source in [
            "extern \"C\" __attribute__((candle_rocm_kernel)) __attribute__((candle_rocm_launch_bounds((64 * N)))) void f(int) {}",
            "extern \"C\" __attribute__((candle_rocm_kernel)) void __attribute__((candle_rocm_launch_bounds((64 * N)))) f(int) {}",
        ] {
            assert_eq!(
                find(source),
                [Kernel { name: "f".into(), scope: String::new(), max_threads: Some("( ( 64 * N ) )".into()) }]
            );
        }
    }
}
