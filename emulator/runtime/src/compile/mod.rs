//! From a HIP source to a code object: a shared object that the host's C++ compiler makes.
//!
//! The source is preprocessed, the kernels are found in what comes out, a table of them is appended, and all of it is
//! compiled. Code objects are cached on disk.

mod cache;
mod driver;
mod dynamic_lds;
mod edition;
mod headers;
mod kernels;
mod options;
mod target;

use crate::model::Model;
use crate::settings::settings;
pub use edition::edition;
use options::Options;

/// A translation unit.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The name that messages give.
    pub name: String,
    /// HIP C++.
    pub text: String,
    /// Headers that it may include, by name.
    pub headers: Vec<(String, String)>,
    /// Options as for clang or hipRTC.
    pub options: Vec<String>,
    /// Template instances and the like whose kernels are wanted besides those of C linkage.
    pub expressions: Vec<String>,
}

/// What a compiler leaves.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The code object, unless there were errors.
    pub code: Option<Vec<u8>>,
    /// Errors, warnings and remarks about options.
    pub log: String,
}

/// Compiles for the model that the options name, else for the given one.
pub fn compile(source: &Source, model: Option<&Model>) -> Outcome {
    let options = Options::parse(&source.options);
    let mut log = options.remarks();
    let Some(target) = options.target.clone().or_else(|| Some(model?.name.to_owned())) else {
        return Outcome { code: None, log: log + "error: there is no device; name one with --offload-arch\n" };
    };
    let job = driver::Job { source, options: &options, target: &target, checked: settings().check };
    let preprocessed = match driver::preprocess(&job) {
        Ok(preprocessed) => dynamic_lds::rewrite(&preprocessed),
        Err(errors) => return Outcome { code: None, log: log + &errors },
    };
    let unit = kernels::with_table(&preprocessed, &source.expressions);
    let key = driver::key(&job, &unit);
    let mut turn = None;
    let found = cache::read(&key).or_else(|| {
        // Tests of two cards begin at once, and both need the same.
        turn = cache::turn(&key);
        cache::read(&key)
    });
    let mut code = match found {
        Some(code) => code,
        None => match driver::compile(&job, &unit) {
            Ok((code, warnings)) => {
                log += &warnings;
                cache::write(&key, &code);
                code
            }
            Err(errors) => return Outcome { code: None, log: log + &errors },
        },
    };
    drop(turn);
    target::stamp(&mut code, &target);
    Outcome { code: Some(code), log }
}

/// The name under which a module has the kernel of the `index`th name expression.
pub fn lowered_name(index: usize) -> String {
    format!("candle_rocm_emulator_expression_{index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_expression_has_a_name_of_its_own_that_the_table_of_kernels_has() {
        let expressions = ["scale<int>".to_owned(), "scale<float>".to_owned()];
        let names = [0, 1].map(lowered_name);
        assert_ne!(names[0], names[1]);
        let table = kernels::with_table("", &expressions);
        for (name, expression) in names.iter().zip(&expressions) {
            let entry = format!("describe<&{expression}>(\"{name}\", static_cast<unsigned>(0))");
            assert!(name.starts_with("candle_rocm_emulator") && table.contains(&entry), "{table}");
        }
    }
}
