//! Thousands at once, several loops, and a rate.

use std::time::{Duration, Instant};

use crate::support::{
    SOON, eventually,
    messages::numbered,
    shop::{CREATED, Shop},
};

async fn arrived(shop: &Shop) -> Vec<Vec<u8>> {
    let count = shop.rabbit.ready(&shop.queue).await as usize;
    let taken = shop.rabbit.take(&shop.queue, count).await;
    let mut bodies: Vec<_> = taken.into_iter().map(|d| d.message.body.unwrap_or_default().to_vec()).collect();
    bodies.sort();
    bodies
}

/// RR19.
#[tokio::test]
async fn of_five_thousand_exactly_the_right_ones_are_unroutable() {
    let shop = Shop::open().await;
    let office = shop.capture();
    let orders = numbered(0, 5_000);
    let (mut nowhere, mut somewhere) = (Vec::new(), Vec::new());
    for (n, order) in orders.into_iter().enumerate() {
        if n % 7 == 0 { nowhere.push(order) } else { somewhere.push(order) }
    }
    // Alternating in the table as their numbers are: six of the one, one of the other.
    for (one, six) in nowhere.iter().zip(somewhere.chunks(6)) {
        shop.die(&shop.exchange, "nowhere", vec![one.clone()]).await;
        shop.die(&shop.exchange, "somewhere", six.to_vec()).await;
    }
    let total = nowhere.len() + somewhere.len();
    shop.captured(office, i64::try_from(total).expect("few")).await;
    shop.rabbit.bind(&shop.queue, &shop.exchange, "somewhere").await;
    shop.rabbit.unbind(&shop.queue, &shop.exchange, "#").await;

    shop.request_all().await;
    let clerk = shop.rules().start();
    shop.all_ended().await;
    clerk.stop().await;

    let wrong: i64 = shop
        .database
        .scalar(
            "SELECT count(*) FROM dlo_replays r JOIN dead_letter_queue d ON d.id = r.letter_id
             WHERE r.verdict IS DISTINCT FROM CASE d.origin_routing_key WHEN 'nowhere' THEN 'UNROUTABLE' ELSE 'ROUTED' END",
        )
        .await;
    assert_eq!(wrong, 0, "{:?}", shop.outcomes().await);
    assert_eq!(shop.bodies_of("DONE UNROUTABLE").await.len(), nowhere.len());
    assert_eq!(arrived(&shop).await, shop.bodies_of("DONE ROUTED").await);
}

/// RX01.
#[tokio::test]
async fn two_loops_send_each_letter_once_and_a_third_takes_over_from_one_that_dies() {
    let shop = Shop::open().await;
    shop.letters(&shop.exchange, CREATED, numbered(0, 2_000)).await;
    shop.request_all().await;
    let clerks = [shop.rules().start(), shop.rules().start()];
    shop.all_ended().await;
    for clerk in clerks {
        clerk.stop().await;
    }
    assert_eq!(shop.outcomes().await, [("DONE ROUTED".to_owned(), 2_000)]);
    assert_eq!(arrived(&shop).await, shop.bodies_of("DONE ROUTED").await);
    let workers: i64 = shop.database.scalar("SELECT count(DISTINCT instance) FROM dlo_replays").await;
    assert_eq!(workers, 2, "both had some");

    shop.database.execute("DELETE FROM dlo_replays").await;
    shop.database.execute("UPDATE dead_letter_queue SET status = 'FAILED'").await;
    shop.request_all().await;
    let lease = Duration::from_secs(4);
    let (doomed, other) =
        (shop.rules().lease(lease).rate(800.0).start(), shop.rules().lease(lease).rate(800.0).start());
    eventually("half way", SOON, async || (shop.rabbit.ready(&shop.queue).await >= 700).then_some(())).await;
    doomed.crash();
    shop.all_ended().await;
    other.stop().await;

    let (routed, doubtful) = (shop.bodies_of("DONE ROUTED").await, shop.bodies_of("IN_DOUBT").await);
    assert_eq!(routed.len() + doubtful.len(), 2_000, "{:?}", shop.outcomes().await);
    let mut all = arrived(&shop).await;
    let total = all.len();
    all.dedup();
    assert_eq!(all.len(), total, "nothing twice");
    assert!(routed.iter().all(|body| all.binary_search(body).is_ok()));
    let stuck: i64 = shop.database.scalar("SELECT count(*) FROM dead_letter_queue WHERE status = 'REPLAYING'").await;
    assert_eq!(stuck, 0);
}

#[tokio::test]
async fn the_rate_is_kept() {
    let shop = Shop::open().await;
    shop.letters(&shop.exchange, CREATED, numbered(0, 600)).await;
    shop.request_all().await;
    let started = Instant::now();
    let clerk = shop.rules().rate(100.0).start();
    let mut seen = Vec::new();
    eventually("some seconds of it", SOON, async || {
        let ready = shop.rabbit.ready(&shop.queue).await;
        seen.push((started.elapsed(), ready));
        (ready >= 350).then_some(())
    })
    .await;
    clerk.stop().await;
    for (elapsed, ready) in &seen {
        // A burst of a quarter second, and what is asked for after the clock was read.
        let most = 100.0 * (elapsed.as_secs_f64() + 0.3) + 2.0;
        assert!(f64::from(*ready) <= most, "{ready} after {elapsed:?}");
    }
    let (elapsed, ready) = seen[seen.len() - 1];
    assert!(f64::from(ready) >= 60.0 * (elapsed.as_secs_f64() - 2.0), "only {ready} after {elapsed:?}");
}
