//! `GET letters`.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::LettersError;
use crate::{
    http::{HttpState, access::Viewer, input::Pairs, problem::ProblemBody},
    store::query::{Cursor, Filter, LetterRow, PAGE_MAX},
};

const PAGE_DEFAULT: u32 = 50;

/// A page of letters, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterList {
    items: Vec<LetterRow>,
    /// Pass as `cursor` for the next page; null on the last.
    next: Option<String>,
}

/// Letters of a selection, newest first.
///
/// Different terms narrow the selection, the same term again widens it; `*` in texts stands for anything.
#[utoipa::path(
    get, path = "/letters", tag = "letters",
    params(
        ("ids" = Option<String>, Query, description = "Letters by id; several with commas."),
        ("status" = Option<String>, Query, description = "FAILED PENDING_RETRY REPLAYING REPLAYED RESOLVED DEAD DISCARDED DUPLICATE REPEATED; several with commas."),
        ("service" = Option<String>, Query), ("team" = Option<String>, Query), ("event_type" = Option<String>, Query),
        ("source" = Option<String>, Query), ("broker" = Option<String>, Query), ("dialect" = Option<String>, Query),
        ("failure_group" = Option<String>, Query), ("error_class" = Option<String>, Query), ("consumer" = Option<String>, Query),
        ("origin" = Option<String>, Query, description = "Original exchange, failed queue or original topic."),
        ("key" = Option<String>, Query, description = "Message key, or original routing key."),
        ("message_id" = Option<String>, Query), ("replay_of" = Option<i64>, Query),
        ("since" = Option<String>, Query, description = "2h, 7d, a date, or RFC 3339."), ("until" = Option<String>, Query),
        ("payload" = Option<String>, Query, description = "JSONPath: $.total > 100, or $.items[*] ? (@.sku == \"A1\")."),
        ("header" = Option<String>, Query, description = "NAME=VALUE, or NAME."),
        ("text" = Option<String>, Query, description = "Words in error, stack trace or payload."),
        ("limit" = Option<u32>, Query, description = "1 to 1000, else 50."), ("cursor" = Option<String>, Query),
    ),
    responses((status = 200, body = LetterList), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Viewer(caller): Viewer,
    mut pairs: Pairs,
) -> Result<Json<LetterList>, LettersError> {
    let (limit, cursor) = page(&mut pairs)?;
    let terms = pairs.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let filter = Filter::parse(terms, state.clock.now())?;
    if filter.reads_bodies() {
        caller.may_see_bodies()?;
    }
    let page = state.store.letters(&filter, cursor, limit).await?;
    Ok(Json(LetterList { items: page.items, next: page.next.map(|cursor| cursor.to_string()) }))
}

fn page(pairs: &mut Pairs) -> Result<(u32, Option<Cursor>), LettersError> {
    let limit = match pairs.take("limit") {
        None => PAGE_DEFAULT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=PAGE_MAX).contains(limit))
            .ok_or_else(|| LettersError::Page(format!("limit: {text:?} is not a number from 1 to {PAGE_MAX}")))?,
    };
    let cursor =
        match pairs.take("cursor") {
            None => None,
            Some(text) => Some(Cursor::parse(&text).ok_or_else(|| {
                LettersError::Page("cursor: not one of ours; take `next` of the page before".to_owned())
            })?),
        };
    Ok((limit, cursor))
}

#[cfg(test)]
mod tests;
