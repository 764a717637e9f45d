//! Wakes the loops when the database says that an attempt was asked for.

use std::{sync::Arc, time::Duration};

use sqlx::postgres::PgListener;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::store::PgStore;

/// Notifications do not pass every pooler: without one, loops look this often.
const NAP: Duration = Duration::from_secs(1);
/// Before another try to listen.
const PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Wake {
    store: Arc<PgStore>,
    wake: watch::Sender<()>,
}

#[derive(Clone)]
pub(super) struct Woken(watch::Receiver<()>);

pub(super) fn channel(store: Arc<PgStore>) -> (Wake, Woken) {
    let (wake, woken) = watch::channel(());
    (Wake { store, wake }, Woken(woken))
}

impl Wake {
    /// Never returns.
    pub(super) async fn listen(self) {
        loop {
            if let Ok(mut listener) = PgListener::connect_with(self.store.pool()).await
                && listener.listen("dlo_replays").await.is_ok()
            {
                // Something may have come before we listened.
                self.wake.send_replace(());
                while let Ok(Some(_)) = listener.try_recv().await {
                    self.wake.send_replace(());
                }
            }
            sleep(PAUSE).await;
        }
    }
}

impl Woken {
    /// What came before this is not waited for.
    pub(super) fn forget(&mut self) {
        self.0.mark_unchanged();
    }

    /// Returns at a notification since [`Woken::forget`], or after a second.
    pub(super) async fn wait(&mut self) {
        // Without a sender there is still the nap.
        if let Ok(Err(_)) = timeout(NAP, self.0.changed()).await {
            sleep(NAP).await;
        }
    }
}
