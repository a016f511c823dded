//! A thread that watches what ranks have queued: RCCL itself waits without end for a rank that has ended.
use super::rank::Rank;
use crate::rocm_backend::gpu::lock;
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

/// How often it looks while something is queued.
const PERIOD: Duration = Duration::from_millis(20);

static RANKS: Mutex<Vec<Weak<Rank>>> = Mutex::new(Vec::new());
/// Something has been queued.
static QUEUED: Condvar = Condvar::new();

/// Watches a rank from now on.
pub(super) fn add(rank: &Arc<Rank>) {
    static STARTED: Once = Once::new();
    lock(&RANKS).push(Arc::downgrade(rank));
    STARTED.call_once(|| {
        std::thread::spawn(watch);
    });
}

/// Says that something has been queued.
pub(super) fn wake() {
    QUEUED.notify_all();
}

fn watch() {
    loop {
        let mut ranks = lock(&RANKS);
        ranks.retain(|rank| rank.strong_count() > 0);
        let watched: Vec<_> = ranks.iter().filter_map(Weak::upgrade).collect();
        drop(ranks);
        let mut busy = false;
        for rank in watched {
            busy |= rank.look();
        }
        let ranks = lock(&RANKS);
        // A wake that comes between is no loss: it is looked again after a while in any case.
        let wait = if busy { PERIOD } else { 10 * PERIOD };
        let waited = QUEUED.wait_timeout(ranks, wait);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        if busy {
            // Not more often than that, however much is queued.
            std::thread::sleep(PERIOD / 2);
        }
    }
}
