//! Group commit: one thread that writes whatever waits, all at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;
use tokio::sync::{oneshot, watch};

/// Where the lines go. It may block.
pub(crate) trait Sink: Send + 'static {
    /// Writes whole lines, as one.
    ///
    /// # Errors
    /// [`PublishClass::Lost`] where it is unknown whether they are there; any other class means
    /// that none of them is.
    fn commit(&mut self, lines: &[u8]) -> Result<(), PublishError>;
}

/// Hands lines to the thread and waits for their fate.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the thread has ended and the sink is gone.
    gone: watch::Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Job>,
    closed: bool,
}

#[derive(Debug)]
struct Job {
    line: Vec<u8>,
    answer: oneshot::Sender<Result<(), PublishError>>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// Those of the system when it gives no thread.
    pub(crate) fn start(sink: impl Sink) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (alive, gone) = watch::channel(());
        let worker = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("sendoff-lines".to_owned()).spawn(move || {
                work(&worker, sink);
                drop(alive);
            })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)), gone })
    }

    /// Writes a line together with whatever else waits.
    ///
    /// Dropping the future before the thread has come to the line takes the line back.
    ///
    /// # Errors
    /// Those of [`Sink::commit`]; [`PublishClass::Unreachable`] when the writer is closed.
    pub(crate) async fn write(&self, line: Vec<u8>) -> Result<(), PublishError> {
        let (answer, answered) = oneshot::channel();
        {
            let mut queue = self.shared.queue();
            if queue.closed {
                return Err(PublishError::unreachable("the publisher is closed"));
            }
            queue.waiting.push_back(Job { line, answer });
        }
        self.shared.news.notify_one();
        answered.await.unwrap_or_else(|_| {
            Err(PublishError::new(PublishClass::Lost, "the writer ended before it answered"))
        })
    }

    /// Takes back every line that the thread has not come to.
    pub(crate) fn discard_waiting(&self) {
        let waiting = std::mem::take(&mut self.shared.queue().waiting);
        for job in waiting {
            let error = PublishError::unreachable("taken back before it was written");
            // A caller that has gone needs no answer.
            let _ = job.answer.send(Err(error));
        }
    }

    /// Writes what waits, takes nothing more, and returns when the sink is gone.
    pub(crate) async fn close(&self) {
        self.shut();
        let mut gone = self.gone.clone();
        while gone.changed().await.is_ok() {}
    }

    /// As [`Writer::close`], blocking; what waits has nobody left who waits for it.
    pub(crate) fn join(&self) {
        self.shut();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // A panic of the thread has been told to its callers already.
            let _ = thread.join();
        }
    }

    fn shut(&self) {
        self.shared.queue().closed = true;
        self.shared.news.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Waits for jobs; `None` once the writer is closed and nothing waits.
    fn next_batch(&self) -> Option<Vec<Job>> {
        /// The most bytes in one write, unless a single line has more.
        const BATCH_BYTES_MAX: usize = 8 << 20;
        let mut queue = self.queue();
        while queue.waiting.is_empty() {
            if queue.closed {
                return None;
            }
            queue = self.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(job) = queue.waiting.pop_front() {
            // Its caller has given up: the line must not be written later.
            if job.answer.is_closed() {
                continue;
            }
            if bytes > 0 && bytes + job.line.len() > BATCH_BYTES_MAX {
                queue.waiting.push_front(job);
                break;
            }
            bytes += job.line.len();
            batch.push(job);
        }
        Some(batch)
    }
}

fn work(shared: &Shared, mut sink: impl Sink) {
    let mut lines = Vec::new();
    while let Some(batch) = shared.next_batch() {
        if batch.is_empty() {
            continue;
        }
        lines.clear();
        for job in &batch {
            lines.extend_from_slice(&job.line);
        }
        let outcome = sink.commit(&lines);
        for job in batch {
            // A caller that gave up meanwhile does not hear how it ended.
            let _ = job.answer.send(outcome.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks; and what they guard is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::FutureExt;
    use sendoff_core::PublishError;
    use sendoff_core::publisher::PublishClass;

    use super::{Sink, Writer};

    /// A sink that tells what it is given and then waits for its fate.
    struct Gated {
        given: mpsc::Sender<String>,
        fate: mpsc::Receiver<Result<(), PublishError>>,
    }

    impl Sink for Gated {
        fn commit(&mut self, lines: &[u8]) -> Result<(), PublishError> {
            self.given.send(String::from_utf8(lines.to_vec()).unwrap()).unwrap();
            self.fate.recv().unwrap()
        }
    }

    struct Gate {
        given: mpsc::Receiver<String>,
        fate: mpsc::Sender<Result<(), PublishError>>,
    }

    impl Gate {
        fn given(&self) -> String {
            self.given.recv_timeout(Duration::from_secs(10)).unwrap()
        }
    }

    fn gated() -> (Writer, Gate) {
        let (given, told) = mpsc::channel();
        let (fate, fates) = mpsc::channel();
        let writer = Writer::start(Gated { given, fate: fates }).unwrap();
        (writer, Gate { given: told, fate })
    }

    #[tokio::test]
    async fn what_waits_during_a_commit_shares_the_next_one() {
        let (writer, gate) = gated();
        let mut first = Box::pin(writer.write(b"1\n".to_vec()));
        assert!((&mut first).now_or_never().is_none());
        assert_eq!(gate.given(), "1\n");
        let mut second = Box::pin(writer.write(b"2\n".to_vec()));
        let mut third = Box::pin(writer.write(b"3\n".to_vec()));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        gate.fate.send(Ok(())).unwrap();
        first.await.unwrap();
        assert_eq!(gate.given(), "2\n3\n");
        let lost = PublishError::new(PublishClass::Lost, "who knows");
        gate.fate.send(Err(lost.clone())).unwrap();
        assert_eq!(second.await, Err(lost.clone()));
        assert_eq!(third.await, Err(lost));
    }

    #[tokio::test]
    async fn a_line_whose_caller_gave_up_is_never_written() {
        let (writer, gate) = gated();
        let mut first = Box::pin(writer.write(b"1\n".to_vec()));
        assert!((&mut first).now_or_never().is_none());
        assert_eq!(gate.given(), "1\n");
        // Dropped by `now_or_never` after it was queued, as at a timeout.
        assert!(writer.write(b"2\n".to_vec()).now_or_never().is_none());
        let mut third = Box::pin(writer.write(b"3\n".to_vec()));
        assert!((&mut third).now_or_never().is_none());
        gate.fate.send(Ok(())).unwrap();
        first.await.unwrap();
        assert_eq!(gate.given(), "3\n");
        gate.fate.send(Ok(())).unwrap();
        third.await.unwrap();
    }

    #[tokio::test]
    async fn what_waits_at_a_reset_is_never_written_and_is_told_so() {
        let (writer, gate) = gated();
        let mut first = Box::pin(writer.write(b"1\n".to_vec()));
        assert!((&mut first).now_or_never().is_none());
        assert_eq!(gate.given(), "1\n");
        let mut second = Box::pin(writer.write(b"2\n".to_vec()));
        assert!((&mut second).now_or_never().is_none());
        writer.discard_waiting();
        let told = second.now_or_never().expect("an answer at once").unwrap_err();
        assert_eq!(told.class(), PublishClass::Unreachable);
        let mut third = Box::pin(writer.write(b"3\n".to_vec()));
        assert!((&mut third).now_or_never().is_none());
        gate.fate.send(Ok(())).unwrap();
        first.await.unwrap();
        assert_eq!(gate.given(), "3\n");
        gate.fate.send(Ok(())).unwrap();
        third.await.unwrap();
    }

    #[tokio::test]
    async fn closing_writes_what_waits_and_takes_nothing_more() {
        let (writer, gate) = gated();
        let mut first = Box::pin(writer.write(b"1\n".to_vec()));
        assert!((&mut first).now_or_never().is_none());
        let mut closing = Box::pin(writer.close());
        assert!((&mut closing).now_or_never().is_none());
        let late = writer.write(b"2\n".to_vec()).await.unwrap_err();
        assert_eq!(late.class(), PublishClass::Unreachable);
        assert_eq!(gate.given(), "1\n");
        gate.fate.send(Ok(())).unwrap();
        first.await.unwrap();
        closing.await;
    }
}
