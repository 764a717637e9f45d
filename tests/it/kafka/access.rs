//! Logins, TLS and rights.

use super::{NOTICED, Post, numbered};
use crate::support::{SOON, eventually, program::Program, services};

/// As `user`, whose password is its name here.
fn login(mechanism: &str, user: &str, password: &str, protocol: &str) -> String {
    format!(
        ", security.protocol: {protocol}, sasl.mechanism: {mechanism}, sasl.username: {user}, sasl.password: {password}"
    )
}

async fn says(program: &Program, words: &str) {
    eventually(&format!("the log says {words:?}"), SOON, async || program.log().contains(words).then_some(())).await;
}

#[tokio::test]
async fn each_mechanism_logs_in_and_a_wrong_password_is_told() {
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        let mut post = Post::new(1).await;
        let records = numbered(0, 10);
        post.send(&records).await;
        post.bootstrap = services::kafka_sasl();
        let properties = post.properties.clone();
        post.properties = properties.clone() + &login(mechanism, "dlo", "wr0ng-s3cret", "sasl_plaintext");
        let wrong = post.start();
        says(&wrong, "Authentication").await;
        assert_eq!(wrong.metric("dlo_source_up").await, Some(0.0));
        assert!(!wrong.log().contains("wr0ng-s3cret"));
        drop(wrong);

        post.properties = properties + &login(mechanism, "dlo", "dlo", "sasl_plaintext");
        let _program = post.start();
        post.stored(10, SOON).await;
        post.is_exactly(&records).await;
    }
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_and_waited_for() {
    let mut post = Post::new(1).await;
    post.send(&numbered(0, 10)).await;
    post.bootstrap = services::kafka_sasl();
    post.properties += &login("PLAIN", "guest", "guest", "sasl_plaintext");

    let program = post.start();

    says(&program, "uthorization").await;
    assert_eq!(program.metric("dlo_source_up").await, Some(0.0));
    assert_eq!(post.database.count().await, 0);
    let lines = program.log().lines().count();
    eventually("some more attempts", NOTICED, async || (program.started.elapsed().as_secs() > 8).then_some(())).await;
    assert!(program.log().lines().count() < lines + 10, "{}", program.log());
}

#[tokio::test]
async fn tls_is_checked_against_the_authority_that_is_given() {
    let (Some(brokers), Some(ca)) = services::kafka_tls() else {
        return eprintln!("skipped: no certificate of this Kafka at hand");
    };
    let mut post = Post::new(1).await;
    let records = numbered(0, 10);
    post.send(&records).await;
    post.bootstrap = brokers;
    post.tls = "ca: /etc/hostname".to_owned();
    let wrong = post.start();
    says(&wrong, "ssl.ca.pem").await;
    drop(wrong);

    post.tls = format!("ca: \"{ca}\"");
    let _program = post.start();
    post.stored(10, SOON).await;
    post.is_exactly(&records).await;
}
