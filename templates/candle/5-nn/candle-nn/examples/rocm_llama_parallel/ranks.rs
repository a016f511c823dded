//! How ranks find each other: rank 0 gives its id to all that connect to it.
use candle::rocm::rccl::{Comm, Id};
use candle::{Device, Error, Result};
use std::ffi::c_char;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long ranks wait for each other to start, if the program says nothing else.
pub const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// One rank, on a GPU of this machine: what it computes on, and what it tells the others by. Rank 0 listens at `hub`.
pub fn join(
    rank: usize,
    ranks: usize,
    gpu: usize,
    hub: &str,
    patience: Duration,
) -> Result<(Device, Arc<Comm>)> {
    let id = match rank {
        0 => give(ranks, hub, patience),
        _ => get(hub, patience),
    };
    // The error of a socket does not say whose it is.
    let id =
        id.map_err(|error| Error::Msg(format!("rank {rank} of {ranks}: {hub}: {error}")).bt())?;
    meet(rank, ranks, gpu, id)
}

/// The same with an id that is known already.
pub fn meet(rank: usize, ranks: usize, gpu: usize, id: Id) -> Result<(Device, Arc<Comm>)> {
    let device = Device::new_rocm_with_stream(gpu)?;
    let stream = device.as_rocm_device()?.rocm_stream();
    let comm = Comm::from_rank(stream, rank, ranks, id)?;
    Ok((device, Arc::new(comm)))
}

fn give(ranks: usize, hub: &str, patience: Duration) -> Result<Id> {
    let id = Id::new()?;
    let listener = TcpListener::bind(hub)?;
    listener.set_nonblocking(true)?;
    let began = Instant::now();
    let mut given = 1;
    while given < ranks {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.write_all(&id.internal().map(|byte| byte as u8))?;
                given += 1;
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error)?,
            Err(_) if began.elapsed() > patience => {
                candle::bail!("{given} of {ranks} ranks have come within {patience:?}")
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    Ok(id)
}

fn get(hub: &str, patience: Duration) -> Result<Id> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(hub) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(patience))?;
                let mut id = [0; 128];
                stream.read_exact(&mut id)?;
                return Ok(Id::uninit(id.map(|byte| byte as c_char)));
            }
            Err(error) if began.elapsed() > patience => Err(error)?,
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
