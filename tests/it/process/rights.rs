//! What the broker's user needs for what, as the README says it.

use dead_letter_office::source::rabbitmq::topology::QueueType;

use crate::support::{
    SOON,
    database::Database,
    eventually,
    messages::numbered,
    program::{Program, Setup, free_port},
    rabbit::Rabbit,
};

const PASSWORD: &str = "only-reads";

struct Somebodys {
    rabbit: Rabbit,
    database: Database,
    setup: Setup,
}

impl Somebodys {
    /// A queue of somebody else's, and a user who may read it and no more.
    async fn queue(queue_type: QueueType) -> Self {
        let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
        let queue = rabbit.queue(queue_type).await;
        let user = rabbit.user_who_may(PASSWORD, ["^$", "^$", &format!("^{queue}$")]).await;
        let mut setup = Setup { queue, ..Setup::new(&rabbit, &database) };
        setup.broker.set_username(&user).expect("a user");
        setup.broker.set_password(Some(PASSWORD)).expect("a password");
        Self { rabbit, database, setup }
    }

    /// Takes from `source`.
    fn start(&self, source: &str) -> Program {
        let metrics = free_port();
        let yaml = format!(
            "database: {{ url: \"${{env:DLO_DATABASE_URL}}\" }}\n\
             brokers: {{ rabbit: {{ rabbitmq: {{ url: \"${{env:DLO_RABBITMQ_URL}}\" }} }} }}\n\
             sources: [ {{ name: orders, broker: rabbit, {source} }} ]\n\
             http: {{ listen: \"{}\" }}\n\
             metrics: {{ listen: \"{metrics}\" }}\n",
            free_port()
        );
        self.setup.start_with(&yaml, metrics)
    }
}

#[tokio::test]
async fn who_may_only_read_captures_and_stops_in_order() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let office = Somebodys::queue(queue_type).await;
        let Somebodys { rabbit, database, setup } = &office;
        rabbit.publish_to(&setup.queue, &numbered(0, 100)).await;

        let mut program = office.start(&format!("queue: {}", setup.queue));
        program.receiving().await;
        rabbit.publish_to(&setup.queue, &numbered(100, 100)).await;
        eventually("the rows", SOON, async || (database.count().await == 200).then_some(())).await;
        program.wait_for_metric("dlo_source_lag_messages{", 0.0, SOON).await;
        program.stop(SOON).await;

        rabbit.wait_for_empty(&setup.queue).await;
        assert_eq!(database.count().await, 200, "nothing came twice");
        let log = program.log();
        assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    }
}

/// The letter stays, and its replay tells the right that is missing; capture does not notice.
#[tokio::test]
async fn who_may_only_read_cannot_send_home_and_is_told_so() {
    let office = Somebodys::queue(QueueType::Classic).await;
    let Somebodys { rabbit, database, setup } = &office;
    let home = rabbit.queue(QueueType::Classic).await;
    let mut program = office.start(&format!("queue: {}", setup.queue));
    program.receiving().await;
    rabbit.publish_to(&setup.queue, &numbered(0, 3)).await;
    eventually("the rows", SOON, async || (database.count().await == 3).then_some(())).await;

    database.request_replays_to(&home).await;
    eventually("all refused", SOON, async || {
        (database.replays().await == [("DONE REFUSED".to_owned(), 3)].into()).then_some(())
    })
    .await;
    let why: String = database.scalar("SELECT error FROM dlo_replays ORDER BY id LIMIT 1").await;
    assert!(why.contains("403 ACCESS_REFUSED"), "{why}");
    assert_eq!(database.statuses().await, [("FAILED".to_owned(), 3)].into());
    rabbit.publish_to(&setup.queue, &numbered(3, 1)).await;
    eventually("the next row", SOON, async || (database.count().await == 4).then_some(())).await;
    program.stop(SOON).await;
}

/// What is ours has to be declared.
#[tokio::test]
async fn who_may_not_configure_is_told_what_is_missing() {
    let office = Somebodys::queue(QueueType::Quorum).await;
    let Setup { exchange, queue, .. } = &office.setup;
    let mut program = office.start(&format!("exchange: {exchange}, queue: {queue}"));
    eventually("the reason is told", SOON, async || {
        program.log().contains("rabbitmqctl set_permissions").then_some(())
    })
    .await;
    assert_eq!(program.metric("dlo_source_up{").await, Some(0.0));
    program.stop(SOON).await;
}
