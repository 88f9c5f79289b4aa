//! A task that runs in the background as long as its owner exists.

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::failure::Failure;

/// At most one running task. It ends when this is dropped, and is started again if its runtime has
/// ended.
///
/// The task must not own its owner, or neither would ever be dropped.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTask(Mutex<Option<JoinHandle<()>>>);

impl BackgroundTask {
    /// Whether the task is running.
    pub(super) fn is_running(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Starts the task unless it is running. `prepare` is called before it starts.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no runtime.
    pub(crate) fn ensure<F: Future<Output = ()> + Send + 'static>(
        &self,
        prepare: impl FnOnce() -> F,
    ) -> Result<(), Failure> {
        let mut task = self.0.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            let runtime = Handle::try_current().map_err(|_| Failure::no_runtime())?;
            *task = Some(runtime.spawn(prepare()));
        }
        Ok(())
    }
}

impl BackgroundTask {
    /// Called by the task before it ends because nothing is left to do. Returns `false` if it has
    /// to continue. Work that is added before [`ensure`](BackgroundTask::ensure) is either seen by
    /// `is_done` or starts the task again.
    pub(crate) fn end_if(&self, is_done: impl FnOnce() -> bool) -> bool {
        let mut task = self.0.lock();
        let is_done = is_done();
        if is_done {
            *task = None;
        }
        is_done
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut() {
            task.abort();
        }
    }
}
