//! A disk in memory that remembers in which order it was written and flushed.
//!
//! Every write and flush gets the next number of the disk's history. An acknowledgement that a
//! client received when the history had `n` events is a promise that a power cut after event `n` or
//! later must keep: that is all the accounting a power-cut test needs.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The unit in which images share memory, and the block size of the filesystems made on them.
pub const PAGE_BYTES: usize = 4096;

/// The unit that a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// The bytes of a disk. A clone shares its pages until one of the two writes to them.
#[derive(Clone)]
pub struct Image {
    /// `None` is a page of zeros.
    pages: Vec<Option<Arc<[u8; PAGE_BYTES]>>>,
}

impl Image {
    /// A disk of zeros; `len_bytes` is a multiple of the page size.
    pub fn zeroed(len_bytes: u64) -> Self {
        let page_bytes = PAGE_BYTES as u64;
        assert_eq!(len_bytes % page_bytes, 0, "a disk is made of whole pages");
        Self {
            pages: vec![None; (len_bytes / page_bytes) as usize],
        }
    }

    /// The size in bytes.
    pub fn len_bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }

    /// Up to `len` bytes from `offset`, fewer at the end of the disk.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.len_bytes().min(offset.saturating_add(len as u64));
        let mut bytes = Vec::with_capacity(len);
        let mut at = offset;
        while at < end {
            let (page, within) = (
                (at / PAGE_BYTES as u64) as usize,
                (at % PAGE_BYTES as u64) as usize,
            );
            let part = (PAGE_BYTES - within).min((end - at) as usize);
            match &self.pages[page] {
                Some(page) => bytes.extend_from_slice(&page[within..within + part]),
                None => bytes.resize(bytes.len() + part, 0),
            }
            at += part as u64;
        }
        bytes
    }

    /// Writes `data` at `offset`; all of it lies within the disk.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert!(
            offset + data.len() as u64 <= self.len_bytes(),
            "a write stays within its disk"
        );
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let (page, within) = (
                (at / PAGE_BYTES as u64) as usize,
                (at % PAGE_BYTES as u64) as usize,
            );
            let (part, later) = rest.split_at((PAGE_BYTES - within).min(rest.len()));
            let page = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within..within + part.len()].copy_from_slice(part);
            at += part.len() as u64;
            rest = later;
        }
    }

    /// Saves the image as a sparse file, for a look at what a test rejected (`mount -o loop FILE
    /// DIR`).
    pub fn save(&self, path: &Path) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(path).expect("the image's file can be created");
        file.set_len(self.len_bytes())
            .expect("the image's file can grow");
        for (index, page) in self.pages.iter().enumerate() {
            if let Some(page) = page {
                file.write_all_at(&page[..], (index * PAGE_BYTES) as u64)
                    .expect("the image can be saved");
            }
        }
    }
}

/// One event of a disk's history.
#[derive(Clone)]
pub enum Event {
    /// Bytes reached the disk's volatile cache.
    Write {
        /// Where, in bytes from the start of the disk.
        offset: u64,
        /// What.
        data: Arc<[u8]>,
    },
    /// All earlier writes reached the medium.
    Flush,
}

/// A disk as it was, and everything that happened to it since.
#[derive(Clone)]
pub struct History {
    /// The bytes before the first event, all of them on the medium.
    pub base: Image,
    /// In the order in which the disk took them.
    pub events: Vec<Event>,
}

/// What a disk does wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Writes that hold these bytes end with EIO, and nothing of them is done. The journal of a
    /// filesystem holds its own structures, so bytes of a file's content are only in its data.
    pub refused_content: Option<Vec<u8>>,
    /// Flushes end with EIO.
    pub refuses_flushes: bool,
    /// Flushes take this long.
    pub flush_delay: Duration,
}

/// A disk in use. Shared between the threads that serve it and the test that watches it.
pub struct Disk {
    state: Mutex<State>,
    faults: Mutex<Faults>,
    /// How many writes and flushes were refused.
    refused: AtomicUsize,
    /// The number of events so far, readable without waiting for a write in progress.
    event_count: AtomicUsize,
}

struct State {
    image: Image,
    /// Present while the history is recorded.
    history: Option<History>,
}

impl Disk {
    /// A disk with these bytes that keeps no history yet.
    pub fn new(image: Image) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                image,
                history: None,
            }),
            faults: Mutex::default(),
            refused: AtomicUsize::new(0),
            event_count: AtomicUsize::new(0),
        })
    }

    /// Starts the history: what is there now counts as flushed.
    pub fn start_history(&self) {
        let mut state = self.lock();
        let base = state.image.clone();
        state.history = Some(History {
            base,
            events: Vec::new(),
        });
        self.event_count.store(0, Ordering::SeqCst);
    }

    /// How many events the history has. Read after an answer arrived, it is an upper bound of what
    /// the answer rests on.
    pub fn event_count(&self) -> usize {
        self.event_count.load(Ordering::SeqCst)
    }

    /// A copy of the history; its pages and data are shared.
    pub fn history(&self) -> History {
        self.lock()
            .history
            .clone()
            .expect("the history was started")
    }

    /// The size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.lock().image.len_bytes()
    }

    /// Up to `len` bytes from `offset`.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        self.lock().image.read(offset, len)
    }

    /// From now on the disk does this wrong, and nothing else.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// How many writes and flushes it has refused.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// Whether the device refuses this write.
    pub fn refuses_write(&self, data: &[u8]) -> bool {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let refuses = faults.refused_content.as_ref().is_some_and(|content| {
            data.windows(content.len())
                .any(|window| window == content.as_slice())
        });
        self.count_refusal(refuses)
    }

    /// Takes as long as flushes take now, and says whether the device refuses this one.
    pub fn refuses_flush(&self) -> bool {
        let faults = self
            .faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        std::thread::sleep(faults.flush_delay);
        self.count_refusal(faults.refuses_flushes)
    }

    fn count_refusal(&self, refuses: bool) -> bool {
        self.refused
            .fetch_add(usize::from(refuses), Ordering::SeqCst);
        refuses
    }

    /// Writes to the volatile cache, which is all that readers see.
    pub fn write(&self, offset: u64, data: &[u8]) {
        let mut state = self.lock();
        state.image.write(offset, data);
        self.record(&mut state, || Event::Write {
            offset,
            data: data.into(),
        });
    }

    /// Makes every earlier write durable.
    pub fn flush(&self) {
        let mut state = self.lock();
        self.record(&mut state, || Event::Flush);
    }

    fn record(&self, state: &mut State, event: impl FnOnce() -> Event) {
        if let Some(history) = &mut state.history {
            history.events.push(event());
            self.event_count
                .store(history.events.len(), Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Another test's panic is no reason to fail this one with a second message.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
