Device::Rocm(device) => {
    let mut storage = crate::RocmStorage::new(data.len(), dtype, device)?;
    storage.copy_from_host(data)?;
    Storage::Rocm(storage)
}
