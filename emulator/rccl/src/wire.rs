//! What ranks and their hub tell each other: a header in JSON and bytes, each with its length before it.

use std::fmt;
use std::io::{Error, ErrorKind, Read, Result, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::number::Number;

/// A header of more bytes than this is not ours.
const LONGEST_HEADER: u32 = 1 << 16;

/// What a rank says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The communicator's.
    pub nonce: u64,
    /// As the program has it.
    pub rank: usize,
    /// As the program has it.
    pub world: usize,
    /// The machine, and the card on it.
    pub card: String,
    /// Whether its e4m3 is the one without a negative zero.
    pub fnuz: bool,
}

/// A call that all ranks make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// What is done.
    pub kind: Kind,
    /// Of how many elements, as the function counts them.
    pub count: usize,
    /// Of which type.
    pub number: Number,
}

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    AllReduce(Op),
    Reduce {
        op: Op,
        root: usize,
    },
    ReduceScatter(Op),
    AllGather,
    Broadcast {
        root: usize,
    },
    /// As `AllGather`, beside what streams do: what ranks tell each other to part a communicator.
    Split,
}

/// How elements of ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op {
    Sum,
    Product,
    Max,
    Min,
    Average,
    /// The sum of what each rank has multiplied by a number of its own.
    Scaled,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, count, number } = self;
        match kind {
            Kind::AllReduce(op) => write!(f, "ncclAllReduce ({op:?})"),
            Kind::Reduce { op, root } => write!(f, "ncclReduce ({op:?}, root {root})"),
            Kind::ReduceScatter(op) => write!(f, "ncclReduceScatter ({op:?})"),
            Kind::AllGather => write!(f, "ncclAllGather"),
            Kind::Broadcast { root } => write!(f, "ncclBroadcast (root {root})"),
            Kind::Split => write!(f, "ncclCommSplit"),
        }?;
        write!(f, " of {count} {number:?}")
    }
}

/// What a rank tells its hub; the bytes that follow are those that it hands in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Request {
    Together {
        ticket: u64,
        call: Call,
    },
    Send {
        ticket: u64,
        to: usize,
        count: usize,
        number: Number,
    },
    Receive {
        ticket: u64,
        from: usize,
        count: usize,
        number: Number,
    },
    /// Nothing more comes.
    Goodbye,
}

/// What the hub tells a rank; the bytes that follow are those that it receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Reply {
    /// All ranks are there.
    Joined,
    /// A call is done.
    Done { ticket: u64 },
    /// The communicator is of no use any more.
    Failed(Failure),
}

/// Why a communicator is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A `ncclResult_t`.
    pub result: u32,
    /// What `ncclGetLastError` says.
    pub text: String,
}

/// Writes a header and bytes.
///
/// # Errors
/// As the stream's.
pub fn write(to: &mut impl Write, header: &impl Serialize, bytes: &[u8]) -> Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut message = Vec::with_capacity(12 + header.len() + bytes.len());
    message.extend_from_slice(&(header.len() as u32).to_le_bytes());
    message.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    message.extend_from_slice(&header);
    message.extend_from_slice(bytes);
    to.write_all(&message)
}

/// Reads a header and bytes.
///
/// # Errors
/// As the stream's, and for what is not ours.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<(T, Vec<u8>)> {
    let (mut header_length, mut length) = ([0; 4], [0; 8]);
    from.read_exact(&mut header_length)?;
    from.read_exact(&mut length)?;
    let (header_length, length) = (u32::from_le_bytes(header_length), u64::from_le_bytes(length));
    if header_length > LONGEST_HEADER {
        return Err(Error::new(ErrorKind::InvalidData, "not a message of an emulated librccl"));
    }
    let mut header = vec![0; header_length as usize];
    from.read_exact(&mut header)?;
    let header = serde_json::from_slice(&header)?;
    let mut bytes = Vec::new();
    // Read as it comes: the length may be anything where the sender is not one of ours.
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((header, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let call = Call { kind: Kind::Reduce { op: Op::Max, root: 1 }, count: 3, number: Number::Bf16 };
        let mut stream = Vec::new();
        write(&mut stream, &Request::Together { ticket: 7, call }, &[1, 2, 3]).unwrap();
        write(&mut stream, &Request::Goodbye, &[]).unwrap();
        let mut reader = stream.as_slice();
        assert_eq!(read(&mut reader).unwrap(), (Request::Together { ticket: 7, call }, vec![1, 2, 3]));
        assert_eq!(read(&mut reader).unwrap(), (Request::Goodbye, vec![]));
        assert_eq!(read::<Request>(&mut reader).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(call.to_string(), "ncclReduce (Max, root 1) of 3 Bf16");
    }

    #[test]
    fn what_is_cut_off_or_not_ours_is_an_error() {
        let mut stream = Vec::new();
        write(&mut stream, &Reply::Done { ticket: 1 }, &[1, 2, 3]).unwrap();
        for length in 0..stream.len() {
            assert!(read::<Reply>(&mut &stream[..length]).is_err(), "{length}");
        }
        assert!(read::<Request>(&mut stream.as_slice()).is_err());
        assert!(read::<Reply>(&mut [b'G'; 64].as_slice()).is_err());
    }
}
