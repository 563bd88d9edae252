//! Threads that wait for the disk, so that whoever asks need not.
//!
//! A thousand sessions that ask tokio's blocking threads for it reach two thirds of the barriers that a thousand bare
//! files reach: there are too many of those threads, and each is woken for each job. These few take the next job
//! when one is done, and reach four fifths and more (`cargo bench -p terret --bench barriers`).

use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::limits::{MAX_SYNCS, SYNC_THREAD_IDLE};

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait, and the threads of this process that take them: made when needed, gone after a while without work.
static POOL: Pool = Pool { jobs: Mutex::new(Jobs::new()), more: Condvar::new() };

struct Pool {
    jobs: Mutex<Jobs>,
    more: Condvar,
}

struct Jobs {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Runs this on another thread.
pub(super) fn aside<F>(work: F) -> BoxFuture<'static, io::Result<()>>
where
    F: FnOnce() -> io::Result<()> + Send + 'static,
{
    let (done, result) = oneshot::channel();
    let job = Box::new(move || {
        // Nobody waits for it any more: then nobody is told.
        let _ = done.send(work());
    });
    match POOL.add(job) {
        Ok(()) => result.map(|done| done.unwrap_or_else(|_| Err(io::Error::other("it was lost")))).boxed(),
        Err(e) => std::future::ready(Err(e)).boxed(),
    }
}

impl Jobs {
    const fn new() -> Self {
        Jobs { waiting: VecDeque::new(), threads: 0, idle: 0 }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'static self, job: Job) -> io::Result<()> {
        let mut jobs = self.lock();
        jobs.waiting.push_back(job);
        if jobs.idle >= jobs.waiting.len() {
            drop(jobs);
            self.more.notify_one();
        } else if jobs.threads < MAX_SYNCS {
            jobs.threads += 1;
            drop(jobs);
            let started = std::thread::Builder::new().name("terret-sync".into()).spawn(|| self.work());
            if let Err(e) = started {
                let mut jobs = self.lock();
                jobs.threads -= 1;
                // The others will come to it; without any, nobody does.
                if jobs.threads == 0 {
                    jobs.waiting.clear();
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    fn work(&self) {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                drop(jobs);
                // Whoever waits for it is told that it was lost; the thread stays.
                let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
                jobs = self.lock();
                continue;
            }
            jobs.idle += 1;
            let (woken, waited) =
                self.more.wait_timeout(jobs, SYNC_THREAD_IDLE).unwrap_or_else(PoisonError::into_inner);
            jobs = woken;
            jobs.idle -= 1;
            if waited.timed_out() && jobs.waiting.is_empty() {
                jobs.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::aside;

    #[tokio::test]
    async fn every_job_is_done_and_answers_for_itself() {
        let jobs = (0..1_000).map(|n| {
            aside(move || if n % 7 == 0 { Err(io::Error::other(format!("job {n}"))) } else { Ok(()) })
        });
        let jobs: Vec<_> = jobs.collect();
        for (n, job) in jobs.into_iter().enumerate() {
            let said = job.await.map_err(|e| e.to_string());
            assert_eq!(said, if n % 7 == 0 { Err(format!("job {n}")) } else { Ok(()) });
        }
    }
}
