//! What failed, why, where from, what was in it, what became of it.

use std::collections::HashMap;

use serde_json::{Value as Json, value::RawValue};

use super::page::Page;
use crate::cli::{json::indented, out::Paint, table::one_line};

const PAYLOAD_LINES: usize = 24;
const TRACE_LINES: usize = 12;

/// A letter as the API tells it.
#[derive(Debug)]
pub(super) struct Letter {
    raw: HashMap<String, Box<RawValue>>,
    read: HashMap<String, Json>,
}

impl Letter {
    /// Payloads and headers are kept as text: their numbers may be larger than any of ours.
    pub(super) fn new(raw: HashMap<String, Box<RawValue>>) -> Self {
        let read = raw.iter().filter_map(|(name, text)| Some((name.clone(), serde_json::from_str(text.get()).ok()?)));
        Self { read: read.collect(), raw }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.read.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.read.get(name)?.as_i64()
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.raw.get(name).map(|raw| raw.get()).filter(|text| *text != "null")
    }
}

/// Writes all sections; those that have nothing to say are left out.
pub(super) fn write(page: &mut Page, id: i64, letter: &Letter, lives: &Json) {
    head(page, id, letter);
    why(page, letter);
    from(page, letter);
    message(page, letter);
    headers(page, letter);
    payload(page, id, letter);
    trace(page, id, letter);
    became(page, id, letter, lives);
    notes(page, letter);
}

fn head(page: &mut Page, id: i64, letter: &Letter) {
    let status = letter.text("status").unwrap_or_default();
    let ground = letter.text("resolved_by").map(|ground| format!(" ({ground})")).unwrap_or_default();
    let title = page.paint(Paint::Bold, &format!("Letter {id}"));
    let status = page.paint(Paint::of_status(status), &format!("{status}{ground}"));
    page.raw(&format!("{title}  {status}"));
    page.section("What failed");
    page.painted("service", letter.text("service_name"), Paint::Bold);
    page.field("team", letter.text("team"));
    page.field("event", letter.text("event_type"));
    page.field("consumer", letter.text("consumer"));
    page.time("captured", letter.text("created_at"));
    page.time("failed", letter.text("failed_at"));
    page.time("next retry", letter.text("next_retry_at"));
    let tags = letter
        .read
        .get("tags")
        .and_then(Json::as_array)
        .map(|tags| tags.iter().map(text_of).collect::<Vec<_>>().join(", "));
    page.field("tags", tags.as_deref());
}

fn why(page: &mut Page, letter: &Letter) {
    page.section("Why");
    page.painted("error", letter.text("error_class"), Paint::Red);
    if let Some(message) = letter.text("error_message") {
        page.wrapped("message", message);
    }
    let attempts = match letter.number("attempts") {
        None => None,
        Some(0) => Some("never tried by the consumer".to_owned()),
        Some(1) => Some("1 by the consumer".to_owned()),
        Some(several) => Some(format!("{several} by the consumer")),
    };
    let retries =
        letter.number("retry_count").filter(|retries| *retries > 0).map(|retries| format!("{retries} by dlo"));
    let tries: Vec<String> = attempts.into_iter().chain(retries).collect();
    page.field("tries", Some(&tries.join(", ")));
    let group = letter.number("failure_group_id").map(|group| group.to_string());
    page.field("failure group", group.as_deref());
}

fn from(page: &mut Page, letter: &Letter) {
    page.section("Where from");
    let exchange = letter.text("origin_exchange").map(|name| if name.is_empty() { "(default)" } else { name });
    page.field("exchange", exchange);
    page.field("routing key", letter.text("origin_routing_key"));
    page.field("died in queue", letter.text("origin_queue"));
    let topic = letter.text("origin_topic").map(|topic| {
        match (letter.number("origin_partition"), letter.number("origin_offset")) {
            (Some(partition), Some(offset)) => format!("{topic}, partition {partition}, offset {offset}"),
            _ => topic.to_owned(),
        }
    });
    page.field("topic", topic.as_deref());
    page.time("first sent", letter.text("origin_timestamp"));
    let source = letter.text("source").map(|source| {
        match (letter.text("broker"), letter.text("captured_queue").or(letter.text("captured_topic"))) {
            (Some(broker), Some(place)) => format!("{source} (broker {broker}, {place})"),
            _ => source.to_owned(),
        }
    });
    page.field(
        "captured by",
        source.as_deref().or((letter.text("broker_kind") == Some("sql")).then_some("written by the service itself")),
    );
    page.field("vhost", letter.text("vhost").filter(|vhost| *vhost != "/"));
    page.field("dialect", letter.text("dialect"));
}

fn message(page: &mut Page, letter: &Letter) {
    page.section("Message");
    let state = letter.text("payload_state").filter(|state| !matches!(*state, "complete" | "sql"));
    let size = letter.number("body_bytes").map(|bytes| match state {
        Some(state) => format!("{} ({state})", bytes_of(bytes)),
        None => bytes_of(bytes),
    });
    page.field("body", size.as_deref().or(state));
    let properties = letter.read.get("properties").and_then(Json::as_object);
    // A broker tells the time in its own unit.
    let time = match letter.text("broker_kind") {
        Some("kafka") => chrono::DateTime::from_timestamp_millis,
        _ => |seconds| chrono::DateTime::from_timestamp(seconds, 0),
    };
    for (name, value) in properties.into_iter().flatten() {
        match value.as_i64().filter(|_| name == "timestamp").and_then(time) {
            Some(at) => page.time("timestamp", Some(&at.to_rfc3339())),
            None => page.field(&name.replace('_', " "), Some(&text_of(value))),
        }
    }
    for name in ["message_id", "correlation_id"] {
        let told = properties.is_some_and(|properties| properties.contains_key(name));
        page.field(&name.replace('_', " "), letter.text(name).filter(|_| !told));
    }
    page.field("trace id", letter.text("trace_id"));
    page.field("key", letter.text("message_key").map(key).as_deref());
}

/// Bytes that are text are shown as text.
fn key(base64: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or_else(|| format!("base64 {base64}"))
}

fn headers(page: &mut Page, letter: &Letter) {
    let headers: Vec<(String, Box<RawValue>)> = letter
        .raw("headers")
        .and_then(|text| serde_json::from_str::<serde_json::Map<String, Json>>(text).ok().map(|map| (text, map)))
        .and_then(|(text, order)| {
            let mut raw: HashMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
            Some(order.keys().filter_map(|name| raw.remove_entry(name)).collect())
        })
        .unwrap_or_default();
    page.section(&format!("Headers ({})", headers.len()));
    page.labels(headers.iter().map(|(name, _)| name.as_str()));
    for (name, value) in headers {
        let text = serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| match value.get() {
            r#"{"$column": "traceback"}"# | r#"{"$column":"traceback"}"# => "(the stack trace below)".to_owned(),
            other => other.to_owned(),
        });
        page.field(&name, Some(&one_line(&text)));
    }
}

fn payload(page: &mut Page, id: i64, letter: &Letter) {
    page.section("Payload");
    if let Some(json) = letter.raw("payload") {
        return page.block(
            &indented(json, page.block_width()),
            PAYLOAD_LINES,
            Paint::Plain,
            &format!("dlo show {id} --full"),
        );
    }
    let omitted =
        letter.read.get("omitted").and_then(Json::as_array).is_some_and(|omitted| omitted.contains(&"body".into()));
    if omitted {
        return page.raw(&page.paint(Paint::Dim, &format!("  not shown here: dlo body {id} > FILE")));
    }
    let Some(body) = letter.text("body") else { return };
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let bytes = STANDARD.decode(body).unwrap_or_default();
    match std::str::from_utf8(&bytes) {
        Ok("") => page.raw(&page.paint(Paint::Dim, "  (empty)")),
        Ok(text) => page.block(text, PAYLOAD_LINES, Paint::Plain, &format!("dlo body {id}")),
        Err(_) => {
            let head: Vec<String> = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            page.raw(&page.paint(Paint::Dim, &format!("  binary: {} …  (dlo body {id} > FILE)", head.join(" "))));
        }
    }
}

fn trace(page: &mut Page, id: i64, letter: &Letter) {
    page.section("Stack trace");
    if let Some(trace) = letter.text("traceback") {
        page.block(trace, TRACE_LINES, Paint::Plain, &format!("dlo show {id} --full"));
    }
}

fn became(page: &mut Page, id: i64, letter: &Letter, lives: &Json) {
    page.section("Replays and lives");
    let first = lives["first"]["id"].as_i64().unwrap_or(id);
    if letter.number("replay_of").is_some() {
        page.field("return of", Some(&format!("letter {first}; act on that one")));
    }
    if let Some(original) = letter.number("duplicate_of") {
        page.field("copy of", Some(&format!("letter {original}")));
    }
    let list = |name: &str| lives[name].as_array().cloned().unwrap_or_default();
    for replay in list("replays") {
        let verdict = replay["verdict"].as_str().or(replay["state"].as_str()).unwrap_or_default();
        let paint = match verdict {
            "DIED_AGAIN" | "UNROUTABLE" | "REFUSED" | "IN_DOUBT" => Paint::Red,
            "ROUTED" | "CONSUMED" | "ACCEPTED" => Paint::Green,
            _ => Paint::Yellow,
        };
        let verdict = page.paint(paint, &format!("{verdict:<11}"));
        let at =
            replay["requested_at"].as_str().unwrap_or_default().chars().take(19).collect::<String>().replace('T', " ");
        let by = one_line(replay["requested_by"].as_str().unwrap_or_default());
        let error = replay["error"].as_str().map(|error| format!(": {}", one_line(error))).unwrap_or_default();
        page.raw(&format!("  replay {:<6}{verdict} {at}  by {by}{error}", replay["id"].to_string()));
    }
    for (name, word) in [("returns", "came back as"), ("duplicates", "second copy")] {
        for life in list(name).iter().filter(|life| life["id"].as_i64() != Some(id)) {
            let at =
                life["created_at"].as_str().unwrap_or_default().chars().take(19).collect::<String>().replace('T', " ");
            page.raw(&format!("  {word} letter {}  {at}", life["id"]));
        }
    }
}

fn notes(page: &mut Page, letter: &Letter) {
    page.section("Notes");
    for (name, value) in letter.read.get("notes").and_then(Json::as_object).into_iter().flatten() {
        page.field(&name.replace('_', " "), Some(&text_of(value)));
    }
}

fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(list) if list.iter().all(Json::is_string) => {
            list.iter().map(text_of).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn bytes_of(bytes: i64) -> String {
    match bytes {
        ..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
