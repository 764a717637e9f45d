//! What reading a queue costs at the least: no database, no batches, only a client that receives and acks.
//!
//!     cargo run --release --example bare -- fill QUEUE classic|quorum MESSAGES
//!     cargo run --release --example bare -- raw|lapin|converted QUEUE PREFETCH MESSAGES
//!
//! `lapin` keeps lapin's own types, `converted` makes of them what `raw` makes: a message as dlo holds it. Prints the
//! time and the CPU time of the whole process for each message. `DLO_BENCH_RABBITMQ_URL` says where.

#![expect(clippy::expect_used, reason = "a measurement stops where it cannot go on")]

mod fill;
mod lapin;
mod raw;

use std::time::Instant;

use tokio::task::JoinHandle;

/// An ack covers this many messages, as a batch of dlo does.
const ACK_EVERY: u64 = 500;

fn url() -> String {
    std::env::var("DLO_BENCH_RABBITMQ_URL").unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:23672/%2f".to_owned())
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, queue, third, messages] = &arguments[..] else { panic!("see the top of examples/bare/main.rs") };
    let messages: u64 = messages.parse().expect("a number of messages");
    if what == "fill" {
        return fill::fill(queue, third, messages).await;
    }
    let prefetch: u16 = third.parse().expect("a prefetch");
    let (time, cpu) = (Instant::now(), cpu_seconds());
    let queue_name = queue.clone();
    // A task as any of dlo's: waking the one that blocks on the runtime costs a system call each time.
    let consuming: JoinHandle<()> = match what.as_str() {
        "raw" => tokio::spawn(async move { raw::consume(&queue_name, prefetch, messages).await }),
        "lapin" => tokio::spawn(async move { lapin::consume(&queue_name, prefetch, messages, false).await }),
        "converted" => tokio::spawn(async move { lapin::consume(&queue_name, prefetch, messages, true).await }),
        other => panic!("{other} is neither raw nor lapin nor converted"),
    };
    consuming.await.expect("to its end");
    let (time, cpu) = (time.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let each = |seconds: f64| seconds * 1e6 / messages as f64;
    println!(
        "{what} {queue} prefetch {prefetch}: {:.2} µs CPU, {:.2} µs a message, {:.0}/s",
        each(cpu),
        each(time),
        messages as f64 / time
    );
}

/// Of all threads, user and system.
fn cpu_seconds() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // Behind the name, which may hold anything.
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let ticks = |n: usize| fields.split_whitespace().nth(n).and_then(|f| f.parse::<f64>().ok()).expect("ticks");
    (ticks(11) + ticks(12)) / TICKS_A_SECOND
}
