//! What a service does with a record.

mod boxed;
mod context;

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

pub use self::boxed::BoxHandler;
pub use self::context::Context;
pub(crate) use self::context::Scope;
use crate::failure::Failure;
use crate::record::Record;

/// What an attempt comes to: `Ok` is done and lets the offset move past the record (G1), `Err` is a
/// failed attempt. `?` converts every `std::error::Error`; for `anyhow::Error` and boxed errors see
/// [`Failure::new`].
pub type HandlerResult = Result<(), Failure>;

/// Handles one record at a time; many run at once, as the ordering allows.
///
/// Closures and `async fn`s of a [`Record`], or of a [`Record`] and a [`Context`], are handlers
/// without further ado (see [`IntoHandler`]); a type with state of its own implements this trait:
///
/// ```
/// use kpipe_core::{Context, Handler, HandlerResult, Record};
///
/// struct Audit {
///     prefix: String,
/// }
///
/// impl Handler for Audit {
///     async fn handle(&self, record: Record, context: Context) -> HandlerResult {
///         println!("{} {} attempt {}", self.prefix, record.id(), context.attempt());
///         Ok(())
///     }
/// }
/// ```
///
/// The future may be dropped at any await: at the attempt's deadline, and when its partition is
/// taken away or the consumer's time to shut down has run out. The record is then delivered again,
/// here or to another member.
pub trait Handler: Send + Sync + 'static {
    /// Handles one record.
    fn handle(
        &self,
        record: Record,
        context: Context,
    ) -> impl Future<Output = HandlerResult> + Send;
}

/// A handler may be shared, for instance with a test that looks at what it did.
impl<H: Handler> Handler for Arc<H> {
    fn handle(
        &self,
        record: Record,
        context: Context,
    ) -> impl Future<Output = HandlerResult> + Send {
        (**self).handle(record, context)
    }
}

/// What can be given where a handler is wanted: a [`Handler`], or a function or closure from
/// [`Record`], or from [`Record`] and [`Context`], to a future of [`HandlerResult`].
///
/// `Args` only tells the three apart and is always inferred.
///
/// ```
/// use kpipe_core::{Consumer, Context, HandlerResult, Record};
///
/// async fn audit(record: Record, context: Context) -> HandlerResult {
///     println!("{} by {:?}", record.id(), context.deadline());
///     Ok(())
/// }
///
/// let consumer = Consumer::new("billing")
///     .topic("audit", audit)
///     .topic("amounts", |record: Record| async move {
///         let text = std::str::from_utf8(record.value().unwrap_or_default())?;
///         let _amount: u64 = text.parse()?;
///         Ok(())
///     });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "this cannot handle records",
    note = "a handler is a function or closure `Fn(Record) -> impl Future<Output = HandlerResult> + \
            Send`, the same with `(Record, Context)`, or a type that implements `Handler`",
    note = "a closure states its argument's type: `|record: Record| async move {{ Ok(()) }}`; its \
            future must be `Send`, own what it uses (`async move`, and clones of what the closure \
            captured), and end in `Ok(())` or a `Failure`"
)]
pub trait IntoHandler<Args> {
    /// The handler that it becomes.
    type Handler: Handler;

    /// Makes it one.
    fn into_handler(self) -> Self::Handler;
}

impl<H: Handler> IntoHandler<()> for H {
    type Handler = H;

    fn into_handler(self) -> H {
        self
    }
}

impl<F, Fut> IntoHandler<(Record,)> for F
where
    F: Fn(Record) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    type Handler = FnHandler<F, (Record,)>;

    fn into_handler(self) -> Self::Handler {
        FnHandler { function: self, args: PhantomData }
    }
}

impl<F, Fut> IntoHandler<(Record, Context)> for F
where
    F: Fn(Record, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    type Handler = FnHandler<F, (Record, Context)>;

    fn into_handler(self) -> Self::Handler {
        FnHandler { function: self, args: PhantomData }
    }
}

/// A function or closure as a [`Handler`]; made by [`IntoHandler`].
pub struct FnHandler<F, Args> {
    function: F,
    args: PhantomData<fn(Args)>,
}

impl<F, Fut> Handler for FnHandler<F, (Record,)>
where
    F: Fn(Record) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    fn handle(&self, record: Record, _: Context) -> impl Future<Output = HandlerResult> + Send {
        (self.function)(record)
    }
}

impl<F, Fut> Handler for FnHandler<F, (Record, Context)>
where
    F: Fn(Record, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    fn handle(
        &self,
        record: Record,
        context: Context,
    ) -> impl Future<Output = HandlerResult> + Send {
        (self.function)(record, context)
    }
}

impl<F, Args> std::fmt::Debug for FnHandler<F, Args> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FnHandler")
    }
}
