use std::fmt;
use std::sync::Arc;

use crate::handler::Handler;
use crate::runtime::{Epoch, Work};

/// A topic and what works on it; the handler's type ends here.
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    work: Box<dyn Work>,
}

impl Topic {
    pub(super) fn new(name: Arc<str>, handler: impl Handler) -> Self {
        Self { name, work: Box::new(Arc::new(handler)) }
    }

    /// Starts the intake of an epoch on the runtime that handlers run on.
    pub(crate) fn start(&self, epoch: Arc<Epoch>, runtime: &tokio::runtime::Handle) {
        self.work.start(epoch, runtime);
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)
    }
}
