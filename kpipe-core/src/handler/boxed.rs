use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Context, Handler, HandlerResult, IntoHandler};
use crate::record::Record;

/// A handler whose type is chosen at run time. Costs an allocation and a virtual call a record,
/// which handlers of a known type do not pay.
///
/// ```
/// use kpipe_core::{BoxHandler, Consumer, Record};
///
/// let dry_run = true;
/// let handler = if dry_run {
///     BoxHandler::new(|_: Record| async { Ok(()) })
/// } else {
///     BoxHandler::new(|record: Record| async move {
///         println!("{}", record.id());
///         Ok(())
///     })
/// };
/// let consumer = Consumer::new("audit").topic("events", handler);
/// ```
#[derive(Clone)]
pub struct BoxHandler(Arc<dyn ErasedHandler>);

trait ErasedHandler: Send + Sync {
    fn handle<'a>(&'a self, record: Record, context: Context) -> BoxFuture<'a, HandlerResult>;
}

impl BoxHandler {
    /// Boxes a handler.
    pub fn new<Args>(handler: impl IntoHandler<Args>) -> Self {
        Self(Arc::new(handler.into_handler()))
    }
}

impl Handler for BoxHandler {
    async fn handle(&self, record: Record, context: Context) -> HandlerResult {
        self.0.handle(record, context).await
    }
}

impl<H: Handler> ErasedHandler for H {
    fn handle<'a>(&'a self, record: Record, context: Context) -> BoxFuture<'a, HandlerResult> {
        Box::pin(Handler::handle(self, record, context))
    }
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxHandler")
    }
}
