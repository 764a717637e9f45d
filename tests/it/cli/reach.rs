//! Databases that are not there, not ready, or not ours; and what is never said about them.

use std::time::{Duration, Instant};

use super::Cli;
use crate::support::{database::Database, services};

#[tokio::test]
async fn a_database_without_the_schema_is_3_until_it_is_migrated() {
    let cli = Cli::over(Database::empty().await);

    assert!(cli.run(&["ls"]).await.fault(3).contains("run: dlo migrate"));
    let missing = cli.run(&["migrate", "--check"]).await;
    assert!(missing.fault(3).contains("dlo migrate") && missing.out.contains("missing: 0001"), "{missing:?}");
    let migrated = cli.run(&["migrate"]).await;
    assert!(migrated.code == 0 && migrated.out.starts_with("applied "), "{migrated:?}");
    assert_eq!(cli.run(&["migrate"]).await.out, "the schema is up to date\n");
    assert_eq!(cli.run(&["migrate", "--check"]).await.code, 0);
    assert_eq!(cli.run(&["ls"]).await.code, 0);
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_4_within_ten_seconds() {
    let cli = Cli::new().await;
    // A port where connections are taken and nobody speaks.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_url = format!("postgres://u:hunter2@127.0.0.1:{}/d", silent.local_addr().expect("an address").port());
    for url in ["postgres://u:hunter2@127.0.0.1:1/d", &silent_url] {
        for args in [&["ls"][..], &["migrate"], &["show", "1"]] {
            let began = Instant::now();
            let ran = cli.run_with(args, &[("DLO_DATABASE_URL", url)]).await;
            assert!(ran.fault(4).starts_with("PostgreSQL at 127.0.0.1:"), "{ran:?}");
            assert!(began.elapsed() < Duration::from_secs(10), "{args:?}: {:?}", began.elapsed());
        }
    }
}

#[tokio::test]
async fn the_password_of_the_database_is_never_in_any_output() {
    const PASSWORD: &str = "hunter2-hunter2";
    let cli = Cli::new().await;
    let user = format!("se01_{}", uuid::Uuid::new_v4().simple());
    let good = cli.url.replace("://dlo:dlo@", &format!("://{user}:{PASSWORD}@"));
    let commands = [
        &["ls"][..],
        &["show", "1"],
        &["migrate"],
        &["check"],
        &["check", "--online"],
        &["token", "ls"],
        &["replay", "1"],
    ];
    let urls = [
        good.as_str(),
        &format!("postgres://u:{PASSWORD}@127.0.0.1:1/d"),
        &format!("postgres://u:{PASSWORD}@nowhere.invalid/d"),
        &format!("postgres://u:{PASSWORD}@127.0.0.1:port/d"),
        &format!("mysql://u:{PASSWORD}@127.0.0.1/d"),
        &format!("postgres//u:{PASSWORD}@127.0.0.1/d"),
        &format!("postgres://u:{PASSWORD}@127.0.0.1/d?sslmode=perhaps"),
    ];
    for url in urls {
        for args in commands {
            let env = [("DLO_DATABASE_URL", url), ("DLO_LOG", "trace"), ("RUST_BACKTRACE", "1")];
            let ran = cli.run_with(args, &env).await;
            assert!(matches!(ran.code, 1..=4) || args[0] == "check", "{args:?}: {ran:?}");
            assert!(!format!("{}{}", ran.out, ran.err).contains("hunter2"), "{args:?}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn without_an_address_the_way_out_is_named() {
    let cli = Cli::new().await;
    let ran = cli.run_with(&["ls"], &[("DLO_DATABASE_URL", "")]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("DLO_DATABASE_URL"), "{ran:?}");
    let other = cli.run_with(&["ls"], &[("DLO_DATABASE_URL", ""), ("DATABASE_URL", &cli.url)]).await;
    assert_eq!(other.code, 0, "{other:?}");
}

#[tokio::test]
async fn a_configuration_file_says_where_the_database_is() {
    let cli = Cli::new().await;
    let file = cli.folder.path().join("mine.yaml");
    let text = format!("database: {{ url: \"{}\" }}\n", cli.url);
    std::fs::write(&file, text).expect("written");
    let nowhere = ("DLO_DATABASE_URL", "postgres://u:p@127.0.0.1:1/d");

    assert_eq!(cli.run_with(&["ls", "-c", "mine.yaml"], &[nowhere]).await.code, 0);
    assert_eq!(cli.run_with(&["ls"], &[nowhere, ("DLO_CONFIG", "mine.yaml")]).await.code, 0);
    std::fs::write(&file, "databse: {}\n").expect("written");
    let wrong = cli.run_with(&["check", "-c", "mine.yaml"], &[]).await;
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("mine.yaml:1") && wrong.err.contains("database"), "{wrong:?}");
}

#[tokio::test]
async fn check_online_asks_kafka_and_says_why_it_is_not_to_be_had() {
    let cli = Cli::new().await;
    let (plain, sasl) = (services::kafka(), services::kafka_sasl());
    let check = async |servers: &str, properties: &str| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let yaml = format!(
            "database: {{ url: \"${{env:DLO_DATABASE_URL}}\" }}\n\
             brokers: {{ events: {{ kafka: {{ bootstrap_servers: \"{servers}\", properties: {{ {properties} }} }} }} }}\n\
             sources: [ {{ name: a, broker: events, topics: [t] }} ]\n"
        );
        std::fs::write(file.path(), yaml).expect("written");
        cli.run(&["check", "--online", "-c", file.path().to_str().expect("a path")]).await
    };

    let good = check(&plain, "").await;
    assert_eq!(good.code, 0, "{good:?}");
    assert!(good.out.contains("# broker events: answers"), "{good:?}");

    let nobody = check("127.0.0.1:1", "").await;
    assert_eq!(nobody.code, 4, "{nobody:?}");

    let login =
        "security.protocol: sasl_plaintext, sasl.mechanism: PLAIN, sasl.username: dlo, sasl.password: wr0ng-s3cret";
    let wrong = check(&sasl, login).await;
    assert_eq!(wrong.code, 4, "{wrong:?}");
    assert!(wrong.err.contains("uthentication"), "{wrong:?}");
    assert!(!format!("{}{}", wrong.out, wrong.err).contains("wr0ng"), "{wrong:?}");

    let key = check(&plain, "sasl.mechanismm: PLAIN").await;
    assert_eq!(key.code, 2, "{key:?}");
    assert!(key.err.contains("sasl.mechanismm"), "{key:?}");
}
