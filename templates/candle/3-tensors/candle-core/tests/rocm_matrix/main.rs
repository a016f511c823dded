//! Every operation of `BackendStorage`, for every element type, on every kind of view: ROCm against the CPU.
//!
//! Integers are the CPU's, bit for bit; floats are within what the kernels promise of the same operation on the same
//! numbers in f64. Where the CPU's own result cannot be trusted, plain sums take its place. Where the CPU refuses or
//! panics, ROCm returns an error. What differs is listed in the phase's spec, with the reason, and has to differ.
#![cfg(feature = "rocm")]
mod compare;
mod exceptions;
mod inputs;
mod operations;
mod plain;
mod release;
#[path = "../rocm_types/mod.rs"]
mod rocm_types;
#[path = "../rocm_ulp/mod.rs"]
mod rocm_ulp;

use candle_core::{DType, Device, Result};
use compare::{Case, Verdict};
use exceptions::{Exception, EXCEPTIONS};
use operations::{operations, Operation};
use release::METHODS;
pub(crate) use rocm_types::DTYPES;
use std::io::Write;

/// Methods that every case uses: to make its inputs and to read its result.
const USED_BY_ALL: &[&str] = &["try_clone", "dtype", "device", "to_cpu_storage"];

#[test]
fn every_method_is_asked_for() {
    let operations = operations();
    assert!(METHODS.len() > USED_BY_ALL.len(), "there are no methods");
    let asked = |method: &&str| {
        USED_BY_ALL.contains(method) || operations.iter().any(|op| op.method() == *method)
    };
    let missing: Vec<_> = METHODS.iter().filter(|method| !asked(method)).collect();
    assert!(missing.is_empty(), "no operation here for {missing:?}");
    let strange = operations
        .iter()
        .filter(|op| !METHODS.contains(&op.method()));
    let strange: Vec<_> = strange.map(|op| &op.name).collect();
    assert!(strange.is_empty(), "no method is called {strange:?}");
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let mut names: Vec<_> = operations().into_iter().map(|op| op.name).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|two| two[0] == two[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// How many cases came out which way.
#[derive(Default)]
struct Counts {
    agree: usize,
    both_refuse: usize,
    listed: usize,
    complaints: Vec<String>,
}

impl Counts {
    /// Runs one operation for one type on its views.
    fn add(
        &mut self,
        operation: &Operation,
        dtype: DType,
        listed: Option<&Exception>,
        device: &Device,
    ) -> Result<()> {
        let mut different = 0;
        for &view in operation.views {
            // One type shows that a view is refused.
            if !operation.takes.contains(&view) && dtype != DType::F32 {
                continue;
            }
            let case = Case {
                operation,
                dtype,
                view,
                exception: listed.map(|exception| exception.kind),
            };
            match case.verdict(device)? {
                Verdict::Agree => self.agree += 1,
                Verdict::BothRefuse => {
                    self.both_refuse += 1;
                    // And one view that a type is.
                    if operation.takes.contains(&view) {
                        break;
                    }
                }
                Verdict::NoDifference => self.listed += 1,
                Verdict::Differs => {
                    different += 1;
                    self.listed += 1;
                }
                Verdict::Fails(why) => {
                    let name = &operation.name;
                    self.complaints
                        .push(format!("{name} {dtype:?} {view:?}: {why}"));
                }
            }
        }
        if let (Some(exception), 0) = (listed, different) {
            let (name, reason) = (exception.operation, exception.reason);
            self.complaints.push(format!(
                "{name} {dtype:?} differs on no view, take it off the list: {reason}"
            ));
        }
        Ok(())
    }
}

/// The exception of a case, if it is listed; complains of cases that are listed twice, and of exceptions of no case.
fn listed<'a>(
    operations: &'a [Operation],
    complaints: &mut Vec<String>,
) -> Vec<(&'a Operation, DType, Option<&'static Exception>)> {
    let (mut cases, mut unused) = (vec![], EXCEPTIONS.iter().collect::<Vec<_>>());
    for operation in operations {
        for &dtype in DTYPES {
            let of_case = |exception: &&Exception| {
                exception.operation == operation.name && exception.dtype == dtype
            };
            let found: Vec<_> = EXCEPTIONS.iter().filter(of_case).collect();
            if found.len() > 1 {
                complaints.push(format!("{} {dtype:?} is listed twice", operation.name));
            }
            unused.retain(|exception| !of_case(exception));
            cases.push((operation, dtype, found.first().copied()));
        }
    }
    for exception in unused {
        let (name, dtype) = (exception.operation, exception.dtype);
        complaints.push(format!("{name} {dtype:?} is listed, but is no case"));
    }
    cases
}

mod agrees_with_the_cpu {
    use super::*;

    #[test]
    fn rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        // The CPU panics for types that it does not have; nobody wants to read about each.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let mut counts = Counts::default();
        let operations = operations();
        let cases = listed(&operations, &mut counts.complaints);
        let mut compared = Ok(());
        for operation in &operations {
            let before = counts.agree + counts.listed;
            for (of, dtype, exception) in &cases {
                if std::ptr::eq(*of, operation) {
                    compared = compared.and(counts.add(operation, *dtype, *exception, &device));
                }
            }
            if counts.agree + counts.listed == before {
                let why = format!("{} gives no result for any type", operation.name);
                counts.complaints.push(why);
            }
        }
        std::panic::set_hook(hook);
        compared?;
        let (agree, refuse, listed) = (counts.agree, counts.both_refuse, counts.listed);
        let line = format!("matrix: {agree} cases agree, {refuse} both refuse, {listed} listed\n");
        std::io::stderr().write_all(line.as_bytes())?;
        let count = counts.complaints.len();
        assert!(
            count == 0,
            "{count} cases differ:\n{}",
            counts.complaints.join("\n")
        );
        Ok(())
    }
}
