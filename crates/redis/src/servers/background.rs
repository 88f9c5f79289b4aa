//! A task that runs in the background as long as its owner exists.

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::failure::Failure;

/// At most one running task. It ends when this is dropped, and is started again if its runtime has
/// ended before.
///
/// The task must not own its owner, or neither would ever be dropped.
#[derive(Debug, Default)]
pub(super) struct BackgroundTask(Mutex<Option<JoinHandle<()>>>);

impl BackgroundTask {
    /// Whether the task is running.
    pub(super) fn is_running(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Starts the task unless it is running. `prepare` is called before it starts.
    ///
    /// # Errors
    ///
    /// When there is no runtime to run it.
    pub(super) fn ensure<F: Future<Output = ()> + Send + 'static>(
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

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut() {
            task.abort();
        }
    }
}
