"""Stand-in arms (a typed error until a later phase) and arms that a template writes."""

from __future__ import annotations

from check import check_refused, check_transformed


def test_a_match_that_the_function_returns_takes_the_result_itself() -> None:
    check_transformed(
        """
        fn zeros(d: &Device) -> Result<Storage> {
            match d {
                Device::Cpu => cpu(),
                Device::Cuda(d) => d.zeros(),
                Device::Metal(m) => m.zeros(),
            }
        }
        """,
        """
        fn zeros(d: &Device) -> Result<Storage> {
            match d {
                Device::Cpu => cpu(),
                Device::Cuda(d) => d.zeros(),
                Device::Metal(m) => m.zeros(),
                Device::Rocm(_) => stand_in(),
            }
        }
        """,
        verb="stand-in",
    )


def test_a_match_whose_value_is_used_returns_early() -> None:
    check_transformed(
        """
        fn zeros(d: &Device) -> Result<Tensor> {
            let storage = match d {
                Device::Cpu => cpu(),
                Device::Cuda(d) => d.zeros()?,
            };
            Ok(wrap(storage))
        }
        """,
        """
        fn zeros(d: &Device) -> Result<Tensor> {
            let storage = match d {
                Device::Cpu => cpu(),
                Device::Cuda(d) => d.zeros()?,
                Device::Rocm(_) => stand_in()?,
            };
            Ok(wrap(storage))
        }
        """,
        verb="stand-in",
    )


def test_a_tail_may_lie_in_other_tails() -> None:
    check_transformed(
        """
        fn zeros(d: &Device, fast: bool) -> Result<Storage> {
            if fast {
                match option() {
                    Some(_) => {
                        match d {
                            Device::Cpu => cpu(),
                            Device::Cuda(d) => d.zeros(),
                        }
                    }
                    None => slow(),
                }
            } else {
                slow()
            }
        }
        """,
        """
        fn zeros(d: &Device, fast: bool) -> Result<Storage> {
            if fast {
                match option() {
                    Some(_) => {
                        match d {
                            Device::Cpu => cpu(),
                            Device::Cuda(d) => d.zeros(),
                            Device::Rocm(_) => stand_in(),
                        }
                    }
                    None => slow(),
                }
            } else {
                slow()
            }
        }
        """,
        verb="stand-in",
    )


def test_neither_a_condition_nor_a_scrutinee_nor_a_closure_nor_a_loop_is_a_tail() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> Result<u8> {
            if match d { Device::Cuda(_) => true, Device::Cpu => false } {
                return Ok(1);
            }
            let g = || match d { Device::Cuda(_) => Ok(2), Device::Cpu => Err(()) };
            loop {
                match d { Device::Cuda(_) => g()?, Device::Cpu => break }
            }
            match match d { Device::Cuda(_) => 3, Device::Cpu => 4 } {
                n => Ok(n),
            }
        }
        """,
        """
        fn f(d: &Device) -> Result<u8> {
            if match d { Device::Cuda(_) => true,
            Device::Rocm(_) => stand_in()?, Device::Cpu => false } {
                return Ok(1);
            }
            let g = || match d { Device::Cuda(_) => Ok(2),
            Device::Rocm(_) => stand_in()?, Device::Cpu => Err(()) };
            loop {
                match d { Device::Cuda(_) => g()?,
                Device::Rocm(_) => stand_in()?, Device::Cpu => break }
            }
            match match d { Device::Cuda(_) => 3,
            Device::Rocm(_) => stand_in()?, Device::Cpu => 4 } {
                n => Ok(n),
            }
        }
        """,
        verb="stand-in",
    )


def test_the_condition_of_a_tail_is_no_tail() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> Result<u8> {
            if match d { Device::Cuda(_) => true, Device::Cpu => false } { Ok(1) } else { Ok(2) }
        }
        """,
        """
        fn f(d: &Device) -> Result<u8> {
            if match d { Device::Cuda(_) => true,
            Device::Rocm(_) => stand_in()?, Device::Cpu => false } { Ok(1) } else { Ok(2) }
        }
        """,
        verb="stand-in",
    )


def test_with_cfg_gating_the_arm_stands_behind_the_feature() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> Result<u8> {
            match d {
                Device::Cuda(_) => Ok(1),
                Device::Cpu => Ok(2),
            }
        }
        """,
        """
        fn f(d: &Device) -> Result<u8> {
            match d {
                Device::Cuda(_) => Ok(1),
                #[cfg(feature = "rocm")]
                Device::Rocm(_) => stand_in(),
                Device::Cpu => Ok(2),
            }
        }
        """,
        verb="stand-in",
        cfg=True,
    )


def test_nothing_is_bound_that_the_error_does_not_use() -> None:
    check_transformed(
        """
        fn f(a: &Storage, l: &Place, n: Option<u8>) -> Result<u8> {
            match (a, l, n) {
                (Storage::Cuda(a), Place::Cuda { id }, Some(n)) => a.f(id, n),
                (whole @ Storage::Cuda(_), place, Some(mut n)) => whole.f(place, n),
                (Storage::Cpu(_), &Place::Cuda(ref x), None) => x.f(),
                _ => Ok(0),
            }
        }
        """,
        """
        fn f(a: &Storage, l: &Place, n: Option<u8>) -> Result<u8> {
            match (a, l, n) {
                (Storage::Cuda(a), Place::Cuda { id }, Some(n)) => a.f(id, n),
                (Storage::Rocm(_), Place::Rocm { .. }, Some(_)) => stand_in(),
                (whole @ Storage::Cuda(_), place, Some(mut n)) => whole.f(place, n),
                (Storage::Rocm(_), _, Some(_)) => stand_in(),
                (Storage::Cpu(_), &Place::Cuda(ref x), None) => x.f(),
                (Storage::Cpu(_), &Place::Rocm(_), None) => stand_in(),
                _ => Ok(0),
            }
        }
        """,
        verb="stand-in",
    )


def test_arms_that_differ_by_guard_or_cfg_share_one_stand_in() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> Result<u8> {
            match d {
                Device::Cuda(c) if c.first() => Ok(1),
                Device::Cpu => Ok(2),
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => c.f(),
                #[cfg(not(feature = "cuda"))]
                Device::Cuda(_) => Ok(3),
            }
        }
        """,
        """
        fn f(d: &Device) -> Result<u8> {
            match d {
                Device::Cuda(c) if c.first() => Ok(1),
                Device::Rocm(_) => stand_in(),
                Device::Cpu => Ok(2),
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => c.f(),
                #[cfg(not(feature = "cuda"))]
                Device::Cuda(_) => Ok(3),
            }
        }
        """,
        verb="stand-in",
    )


def test_an_or_pattern_gives_only_cudas_own_alternatives() -> None:
    check_transformed(
        """
        fn f(d: &Device, e: &Device) -> Result<u8> {
            match (d, e) {
                (Device::Cpu, Device::Cpu | Device::Cuda(_)) => Ok(1),
                (Device::Cuda(_) | Device::Metal(_), _) => Ok(2),
                _ => Ok(3),
            }
        }
        """,
        """
        fn f(d: &Device, e: &Device) -> Result<u8> {
            match (d, e) {
                (Device::Cpu, Device::Cpu | Device::Cuda(_)) => Ok(1),
                (Device::Cpu, Device::Rocm(_)) => stand_in(),
                (Device::Cuda(_) | Device::Metal(_), _) => Ok(2),
                (Device::Rocm(_), _) => stand_in(),
                _ => Ok(3),
            }
        }
        """,
        verb="stand-in",
    )


def test_a_metal_only_match_has_no_place_for_a_stand_in() -> None:
    check_refused(
        """
        fn f(d: &Device) -> Result<u8> {
            match d {
                Device::Metal(_) => Ok(1),
                _ => Ok(2),
            }
        }
        """,
        "no arm names CUDA",
        verb="stand-in",
    )


def test_a_body_that_the_grammar_cannot_parse_does_not_matter_to_a_stand_in() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> Result<()> {
            match s {
                Storage::Cuda(c) => go::<Box<dyn 'a + Fn(&T)>>(c),
                _ => Ok(()),
            }
        }
        """,
        """
        fn f(s: &Storage) -> Result<()> {
            match s {
                Storage::Cuda(c) => go::<Box<dyn 'a + Fn(&T)>>(c),
                Storage::Rocm(_) => stand_in(),
                _ => Ok(()),
            }
        }
        """,
        verb="stand-in",
    )


def test_a_template_writes_the_arm() -> None:
    check_transformed(
        """
        fn load(d: &Device, bytes: &[u8]) -> Result<Storage> {
            match d {
                Device::Cpu => cpu(bytes),
                Device::Cuda(d) => d.memcpy(bytes),
                Device::Metal(d) => d.load(bytes),
            }
        }
        """,
        """
        fn load(d: &Device, bytes: &[u8]) -> Result<Storage> {
            match d {
                Device::Cpu => cpu(bytes),
                Device::Cuda(d) => d.memcpy(bytes),
                Device::Metal(d) => d.load(bytes),
                Device::Rocm(d) => {
                    let storage = cpu(bytes)?;

                    d.upload(storage)
                }
            }
        }
        """,
        verb="override",
        text="""\
        Device::Rocm(d) => {
            let storage = cpu(bytes)?;

            d.upload(storage)
        }
        """,
    )


def test_a_templates_arm_gets_the_comma_it_lacks() -> None:
    check_transformed(
        """
        fn load(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) => 1,
                _ => 2,
            }
        }
        """,
        """
        fn load(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) => 1,
                Device::Rocm(_) => 3,
                _ => 2,
            }
        }
        """,
        verb="override",
        text="Device::Rocm(_) => 3\n",
    )


def test_a_template_may_write_the_arm_of_a_metal_only_match() -> None:
    check_transformed(
        """
        fn load(d: &Device) -> u8 {
            match d {
                Device::Metal(_) => 1,
                _ => 2,
            }
        }
        """,
        """
        fn load(d: &Device) -> u8 {
            match d {
                Device::Metal(_) => 1,
                Device::Rocm(_) => 3,
                _ => 2,
            }
        }
        """,
        verb="override",
        text="Device::Rocm(_) => 3,\n",
    )
