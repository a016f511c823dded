(Storage::Cpu(storage), Device::Rocm(rocm)) => {
    Storage::Rocm(rocm.storage_from_cpu_storage(storage)?)
}
// A view of a larger allocation is gathered on its device, so that only the view is moved.
(Storage::Rocm(storage), Device::Cpu) if storage.exceeds(self.layout()) => {
    let view = storage.packed(self.layout())?.to_cpu_storage()?;
    let op = BackpropOp::new1(self, Op::ToDevice);
    return Ok(from_storage(Storage::Cpu(view), self.shape(), op, false));
}
(Storage::Rocm(storage), Device::Rocm(rocm)) if storage.exceeds(self.layout()) => {
    let view = storage.packed(self.layout())?.transfer_to_device(rocm)?;
    let op = BackpropOp::new1(self, Op::ToDevice);
    return Ok(from_storage(Storage::Rocm(view), self.shape(), op, false));
}
(Storage::Rocm(storage), Device::Cpu) => Storage::Cpu(storage.to_cpu_storage()?),
(Storage::Rocm(storage), Device::Rocm(rocm)) => {
    Storage::Rocm(storage.transfer_to_device(rocm)?)
}
(Storage::Rocm(_), Device::Cuda(_) | Device::Metal(_))
| (Storage::Cuda(_) | Storage::Metal(_), Device::Rocm(_)) => {
    bail!(
        "no way from {:?} to {:?}: move the tensor to the CPU first",
        self.device().location(),
        device.location()
    )
}
