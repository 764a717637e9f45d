//! X1: as fast as it goes, beside a bare publisher in the same run. The ratio is printed and not judged: in a debug build
//! on a busy machine it says little.

use std::time::{Duration, Instant};

use dead_letter_office::amqp::convert;
use lapin::{
    Confirmation,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};

use crate::support::{
    SOON, eventually,
    messages::{headers, message, random_text, text},
    shop::{CREATED, Shop},
};

const LETTERS: usize = 10_000;
const OUTSTANDING: usize = 1000;

#[tokio::test]
async fn replay_at_full_speed_beside_a_bare_publisher() {
    let shop = Shop::open().await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let orders: Vec<_> = (0..LETTERS)
        .map(|n| {
            let body =
                format!(r#"{{"order": {n}, "text": "{}"}}"#, random_text(960, n as u64).replace(['"', '\\'], "x"));
            let mut order = message(body);
            order.headers = headers(names.map(|name| (name, text("value of a header"))));
            order
        })
        .collect();
    shop.letters(&shop.exchange, CREATED, orders.clone()).await;
    shop.database.execute("ANALYZE dead_letter_queue").await;

    let bare = bare_publisher(&shop, &orders).await;
    shop.rabbit.management.delete(&format!("queues/%2f/{}/contents", shop.queue)).await;
    shop.rabbit.wait_for_ready(&shop.queue, 0).await;

    shop.request_all().await;
    shop.database.execute("ANALYZE dlo_replays").await;
    let started = Instant::now();
    let clerk = shop.rules().start();
    eventually("all recorded", SOON, async || {
        let sql = "SELECT NOT EXISTS (SELECT FROM dlo_replays WHERE state IN ('PENDING', 'LEASED'))";
        let ended = shop.database.scalar::<bool>(sql).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        ended.then_some(())
    })
    .await;
    let replay = started.elapsed();
    clerk.stop().await;
    assert_eq!(shop.outcomes().await, [("DONE ROUTED".to_owned(), LETTERS as i64)]);

    let per_second = |took: Duration| LETTERS as f64 / took.as_secs_f64();
    println!(
        "X1: replay {:.0}/s, bare publisher {:.0}/s, ratio {:.2}",
        per_second(replay),
        per_second(bare),
        per_second(replay) / per_second(bare)
    );
}

async fn bare_publisher(shop: &Shop, orders: &[dead_letter_office::message::RawMessage]) -> Duration {
    let connection = shop.rabbit.lapin().await;
    let channel = connection.create_channel().await.expect("a channel");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let started = Instant::now();
    let mut confirms = std::collections::VecDeque::with_capacity(OUTSTANDING);
    for order in orders {
        if confirms.len() == OUTSTANDING
            && let Some(confirm) = confirms.pop_front()
        {
            assert!(confirmed(confirm).await.is_ack());
        }
        let properties = convert::to_lapin(order).expect("lapin holds it");
        let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let body = order.body.as_deref().unwrap_or_default();
        let (exchange, key) = (shop.exchange.as_str().into(), CREATED.into());
        confirms.push_back(channel.basic_publish(exchange, key, mandatory, body, properties).await.expect("sent"));
    }
    for confirm in confirms {
        assert!(confirmed(confirm).await.is_ack());
    }
    started.elapsed()
}

async fn confirmed(confirm: impl Future<Output = lapin::Result<Confirmation>>) -> Confirmation {
    confirm.await.expect("confirmed")
}
