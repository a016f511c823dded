//! Threads that watch what ranks have queued: RCCL itself waits without end for a rank that has ended.
//!
//! One asks HIP what is done, and may have to wait for a call of the program's that waits for a stream. The other looks at
//! the clock and at RCCL's errors, and never waits.
use super::rank::Rank;
use crate::rocm_backend::gpu::lock;
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

/// How often they look while something is queued.
const PERIOD: Duration = Duration::from_millis(20);
/// How often otherwise: a wake that comes between two looks is no loss then.
const IDLE: Duration = Duration::from_millis(200);

static RANKS: Mutex<Vec<Weak<Rank>>> = Mutex::new(Vec::new());
/// Something has been queued, or there is a rank more.
static CHANGED: Condvar = Condvar::new();

/// Watches a rank from now on.
pub(super) fn add(rank: &Arc<Rank>) {
    static STARTED: Once = Once::new();
    lock(&RANKS).push(Arc::downgrade(rank));
    wake();
    STARTED.call_once(|| {
        std::thread::spawn(|| each_period(Rank::look));
        std::thread::spawn(|| {
            each_period(|rank| {
                rank.forget_done();
                rank.is_busy()
            })
        });
    });
}

/// Says that something has been queued.
pub(super) fn wake() {
    CHANGED.notify_all();
}

/// Looks at all ranks again and again, and sleeps while there are none; `look` says whether something is queued.
fn each_period(look: impl Fn(&Rank) -> bool) {
    loop {
        let watched = ranks();
        let mut busy = false;
        for rank in watched {
            busy |= look(&rank);
        }
        if busy {
            std::thread::sleep(PERIOD);
        } else {
            let waited = CHANGED.wait_timeout(lock(&RANKS), IDLE);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The ranks that there are, as soon as there are any.
fn ranks() -> Vec<Arc<Rank>> {
    let mut ranks = lock(&RANKS);
    loop {
        ranks.retain(|rank| rank.strong_count() > 0);
        let found: Vec<_> = ranks.iter().filter_map(Weak::upgrade).collect();
        if !found.is_empty() {
            return found;
        }
        ranks = CHANGED.wait(ranks).unwrap_or_else(PoisonError::into_inner);
    }
}
