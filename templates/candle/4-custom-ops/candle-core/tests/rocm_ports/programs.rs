//! The programs, and what they compute on the device.
mod c;
mod cache;
mod norm;
mod routing;
mod scale;
mod square;

#[cfg(feature = "rocm")]
mod on_the_device {
    use super::{cache, norm, routing, scale, square};
    use candle_core::{DType, Device, Result, Storage, Tensor};
    use std::io::Write;

    /// The device, or None with a message.
    fn gpu(test: &str) -> Option<Device> {
        if !candle_core::utils::rocm_is_available() {
            // Past libtest's capture, so that nobody takes a skipped test for a passed one.
            let line = format!("SKIPPED: {test}: no ROCm device\n");
            let written = std::io::stderr().write_all(line.as_bytes());
            written.expect("stderr is open");
            return None;
        }
        Some(Device::new_rocm(0).expect("a GPU that was counted"))
    }

    fn numbers(shape: (usize, usize), device: &Device) -> Result<Tensor> {
        let numbers = (0..shape.0 * shape.1).map(|i| (i % 89) as f32 / 7. - 5.);
        Tensor::from_vec(numbers.collect(), shape, device)
    }

    fn rows(tensor: &Tensor) -> Result<Vec<Vec<f32>>> {
        tensor.to_dtype(DType::F32)?.to_vec2()
    }

    #[test]
    fn a_kernel_is_launched_with_a_builder() -> Result<()> {
        let Some(device) = gpu("a_kernel_is_launched_with_a_builder") else {
            return Ok(());
        };
        let scale = || scale::Scale {
            scale: 0.5,
            bias: -3.,
        };
        for shape in [(1, 1), (3, 300), (257, 19)] {
            let expected = numbers(shape, &Device::Cpu)?.apply_op1(scale())?;
            let found = numbers(shape, &device)?.apply_op1(scale())?;
            assert_eq!(rows(&found)?, rows(&expected)?);
        }
        // A view that begins in the middle of its memory.
        let (host, device) = (numbers((7, 31), &Device::Cpu)?, numbers((7, 31), &device)?);
        let found = device.narrow(0, 2, 3)?.apply_op1(scale())?;
        assert_eq!(
            rows(&found)?,
            rows(&host.narrow(0, 2, 3)?.apply_op1(scale())?)?
        );
        assert!(device.t()?.apply_op1(scale()).is_err());
        assert!(device.to_dtype(DType::F64)?.apply_op1(scale()).is_err());
        Ok(())
    }

    #[test]
    fn a_library_in_c_gets_addresses_and_the_stream() -> Result<()> {
        let Some(device) = gpu("a_library_in_c_gets_addresses_and_the_stream") else {
            return Ok(());
        };
        let norm = || norm::RowNorm { eps: 1e-3 };
        let (x, alpha) = (
            numbers((70, 45), &Device::Cpu)?,
            numbers((1, 45), &Device::Cpu)?,
        );
        let expected = rows(&x.apply_op2(&alpha, norm())?)?;
        for (dtype, error) in [(DType::F32, 2e-6), (DType::BF16, 2e-2)] {
            let x = x.to_dtype(dtype)?.to_device(&device)?;
            let alpha = alpha.to_dtype(dtype)?.to_device(&device)?;
            let found = x.apply_op2(&alpha, norm())?;
            assert_eq!(found.dtype(), dtype);
            for (found, expected) in rows(&found)?.concat().into_iter().zip(expected.concat()) {
                let limit = error * expected.abs().max(1.);
                assert!((found - expected).abs() <= limit, "{found} for {expected}");
            }
        }
        let wrong = x.to_dtype(DType::F64)?.to_device(&device)?;
        let error = wrong.apply_op2(&wrong, norm()).expect_err("no kernel");
        assert!(error.to_string().contains("no kernel for F64"), "{error}");
        Ok(())
    }

    #[test]
    fn a_cache_is_written_in_place() -> Result<()> {
        let Some(device) = gpu("a_cache_is_written_in_place") else {
            return Ok(());
        };
        let keys = numbers((4, 600), &device)?;
        let cache = Tensor::zeros((6, 600), DType::F32, &device)?;
        // A tensor that is on its way to another stream while the cache is written.
        let before = cache.to_device(&Device::new_rocm_with_stream(0)?)?;
        cache::write_slots(&keys, &cache, &[5, -1, 0, 3])?;
        let mut expected = vec![vec![0.; 600]; 6];
        for (row, slot) in [(0, 5), (2, 0), (3, 3)] {
            expected[slot] = rows(&keys)?[row].clone();
        }
        assert!(rows(&cache)? == expected);
        assert!(rows(&before)? == vec![vec![0.; 600]; 6]);
        let host = numbers((4, 600), &Device::Cpu)?;
        assert!(cache::write_slots(&host, &cache, &[0; 4]).is_err());
        Ok(())
    }

    #[test]
    fn operations_are_mapped_over_types() -> Result<()> {
        let Some(device) = gpu("operations_are_mapped_over_types") else {
            return Ok(());
        };
        for dtype in [DType::F32, DType::F64, DType::I64] {
            let x = numbers((9, 50), &Device::Cpu)?.to_dtype(dtype)?;
            let on_device = x.to_device(&device)?.narrow(0, 1, 4)?;
            let (storage, layout) = on_device.storage_and_layout();
            let Storage::Rocm(storage) = &*storage else {
                panic!("not on the device")
            };
            let squares = Storage::Rocm(square::square(storage, layout)?);
            let part = x.narrow(0, 1, 4)?;
            let expected = (&part * &part)?.flatten_all()?;
            assert_eq!(on_host(&squares, 200)?, values(&expected)?, "{dtype:?}");
            let joined = Storage::Rocm(square::join(storage, layout, storage, layout)?);
            let expected = Tensor::cat(&[&part, &part], 0)?.flatten_all()?;
            assert_eq!(on_host(&joined, 400)?, values(&expected)?, "{dtype:?}");
        }
        let (bytes, floats) = (
            device_storage(DType::U8, &device)?,
            device_storage(DType::F32, &device)?,
        );
        let ((bytes, l), (floats, _)) = (bytes.storage_and_layout(), floats.storage_and_layout());
        let (Storage::Rocm(bytes), Storage::Rocm(floats)) = (&*bytes, &*floats) else {
            panic!("not on the device")
        };
        let error = square::join(bytes, l, floats, l).expect_err("two types");
        assert!(error.to_string().contains("dtype mismatch"), "{error}");
        // There is no kernel of that name.
        assert!(square::square(bytes, l).is_err());
        Ok(())
    }

    fn device_storage(dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::zeros(3, dtype, device)
    }

    fn on_host(storage: &Storage, elements: usize) -> Result<Vec<f64>> {
        let Storage::Rocm(storage) = storage else {
            panic!("not on the device")
        };
        let view = storage.read_view(&candle_core::Layout::contiguous(elements))?;
        values(&view)
    }

    fn values(tensor: &Tensor) -> Result<Vec<f64>> {
        tensor.to_dtype(DType::F64)?.to_vec1()
    }

    #[test]
    fn tokens_are_counted_by_expert() -> Result<()> {
        let Some(device) = gpu("tokens_are_counted_by_expert") else {
            return Ok(());
        };
        let router = routing::Router::new(device.as_rocm_device()?)?;
        let choices: Vec<i32> = (0..1000).map(|i| i % 7 - 1).collect();
        let (counts, dropped) = router.count(&choices, 5)?;
        assert_eq!(counts, [143, 143, 143, 143, 143]);
        let expected: Vec<u32> = (0..1000).filter(|i| i % 7 == 0 || i % 7 == 6).collect();
        assert_eq!(dropped, expected);
        Ok(())
    }
}
