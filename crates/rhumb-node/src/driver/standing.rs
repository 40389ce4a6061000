//! How a node stands with its router, for whoever wants to hear of changes: the latest word only.

use rhumb_wire::Name;
use tokio::sync::watch;

use crate::core::{Core, Event};

/// How a node stands with its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Standing {
    /// The router that takes its traffic; none while it is lost.
    pub router: Option<Name>,
    /// Whether a RIB holds its name. Until then the node
    /// is reached by nodes of the same router only.
    pub published: bool,
    /// How often it was told that another process with its key ran, which has to
    /// give up, as this one's claim is the later.
    pub rivals: u32,
}

/// Tells of each change of a node's [`Standing`]; made by [`crate::Node::watch`].
#[derive(Debug, Clone)]
pub struct StandingWatch(watch::Receiver<Standing>);

impl StandingWatch {
    pub(crate) fn new(standing: watch::Receiver<Standing>) -> Self {
        Self(standing)
    }

    /// How the node stands now.
    pub fn now(&self) -> Standing {
        *self.0.borrow()
    }

    /// Waits until it stands otherwise than when this was asked last, and says how; `None` when the
    /// node has ended. May be dropped and called again.
    pub async fn changed(&mut self) -> Option<Standing> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}

/// The thread's end.
pub(crate) struct StandingNews(watch::Sender<Standing>);

impl StandingNews {
    /// Both ends.
    pub(crate) fn begin() -> (Self, watch::Receiver<Standing>) {
        let (sender, receiver) = watch::channel(Standing::default());
        (Self(sender), receiver)
    }

    pub(super) fn observe(&self, event: &Event) {
        if matches!(event, Event::Contested { .. }) {
            self.0.send_modify(|standing| standing.rivals = standing.rivals.saturating_add(1));
        }
    }

    /// Looks how the node stands now, and tells if that is otherwise.
    pub(super) fn tell(&self, core: &Core) {
        let router = core.router().filter(|_| core.is_joined());
        let published = router.is_some() && core.lease().is_some_and(|lease| lease.published);
        self.0.send_if_modified(|standing| {
            let news = Standing { router, published, ..*standing };
            std::mem::replace(standing, news) != news
        });
    }
}
