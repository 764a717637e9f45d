//! What the program says of its sources.

use dead_letter_office::store::sources::SourceView;

use crate::support::{
    SOON, database::Database, eventually, link::Link, messages::numbered, program::Setup, rabbit::Rabbit,
};

/// The one source, once `is` holds of it.
async fn source(database: &Database, what: &str, is: impl Fn(&SourceView) -> bool) -> SourceView {
    eventually(what, SOON, async || {
        let mut sources = database.store().sources().await.ok()?;
        assert!(sources.len() <= 1, "{sources:?}");
        sources.pop().filter(|source| is(source))
    })
    .await
}

#[tokio::test]
async fn a_queue_is_up_while_it_is_consumed_down_without_its_broker_and_known_after_the_end() {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let link = Link::to(&rabbit.host_and_port()).await;
    let setup = Setup::new(&rabbit, &database).broker_over(&link);
    let mut program = setup.start();
    program.receiving().await;
    rabbit.publish(&setup.exchange, "order.failed", &numbered(0, 3)).await;

    let up = source(&database, "it is up", |source| {
        source.state == "up" && source.last_letter_at.is_some() && source.waiting == Some(0)
    })
    .await;
    assert_eq!((up.broker_kind.as_str(), up.queues.len(), up.instances.len()), ("rabbitmq", 1, 1));
    assert_eq!((&up.queues[0].queue, up.queues[0].open_sessions), (&setup.queue, 1));
    assert_eq!(up.queues[0].instances[0], up.instances[0].instance);

    link.down();
    let down = source(&database, "it is down", |source| source.state == "down").await;
    assert!(down.trouble.is_some_and(|why| !why.is_empty()));
    link.up();
    source(&database, "it is up again", |source| source.state == "up").await;

    program.stop(SOON).await;
    let away = source(&database, "it is away", |source| source.state == "away").await;
    assert_eq!((away.instances.len(), away.last_letter_at.is_some()), (0, true));
}
