//! `POST letters/{id}/replay|discard|reopen|resolve`.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json_, value::RawValue};
use utoipa::ToSchema;

use super::LettersError;
use crate::{
    dialect::{self, Place, Publish, Target},
    http::{
        HttpState,
        access::Operator,
        input::{Id, Input},
        problem::ProblemBody,
    },
    message::natural,
    policy::target,
    store::{
        Action,
        query::{self, Letter},
        replays::Replay,
    },
};

/// How a letter is to be sent. All of it may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplayRequest {
    /// `"original"` (so without it), `"queue"`, `{"queue": …}`, `{"exchange": …, "routing_key": …}`, or
    /// `{"topic": …, "partition": …}`.
    #[schema(value_type = Option<Object>)]
    target: Option<Json_>,
    /// Answer 200 with what would be published, and change nothing.
    dry_run: bool,
    #[schema(value_type = Option<String>)]
    key: Option<Json_>,
    #[schema(value_type = Option<Object>)]
    headers: Option<Json_>,
    #[schema(value_type = Option<i64>)]
    version: Option<Json_>,
}

/// What a replay would publish.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Preview {
    letter_id: i64,
    /// RabbitMQ; so `routing_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    exchange: Option<Json_>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    routing_key: Option<Json_>,
    /// Kafka; so `partition`, which the key chooses where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    topic: Option<Json_>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<i32>,
    #[schema(value_type = Object)]
    properties: Map<String, Json_>,
    #[schema(value_type = Object)]
    headers: Box<RawValue>,
    body_bytes: usize,
}

/// Asks for a letter to be sent home. The replay loop does it; `GET replays/{id}` tells what became of it.
#[utoipa::path(
    post, path = "/letters/{id}/replay", tag = "letters", params(("id" = i64, Path)), request_body = ReplayRequest,
    responses(
        (status = 202, body = Replay), (status = 200, description = "With dry_run.", body = Preview),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json")
    ),
)]
pub(crate) async fn replay(
    State(state): State<HttpState>,
    Operator(caller): Operator,
    Id(id): Id,
    Input(request): Input<ReplayRequest>,
) -> Result<Response, LettersError> {
    let later = [("key", &request.key), ("headers", &request.headers), ("version", &request.version)];
    if let Some((name, _)) = later.into_iter().find(|(_, value)| value.is_some()) {
        return Err(LettersError::NotYet(name));
    }
    let target = request.target.as_ref().map_or(Ok(Target::Original), target::parse)?;
    if request.dry_run {
        let publish = state.store.preview_replay(id, &target).await?;
        return Ok(Json(preview(id, publish)).into_response());
    }
    let replay = state.store.request_replay(id, &target, &caller.actor).await?;
    let location = format!("/api/v1/replays/{}", replay.id);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(replay)).into_response())
}

fn preview(id: i64, mut publish: Publish) -> Preview {
    dialect::stamp(&mut publish.message, id, "(new for each replay)");
    let mut headers = Vec::new();
    natural::write(&mut headers, &publish.message.headers, None);
    let (exchange, routing_key, topic, partition) = match &publish.place {
        Place::Exchange { exchange, routing_key } => (Some(exchange), Some(routing_key), None, None),
        Place::Topic { topic, partition } => (None, None, Some(topic), *partition),
    };
    Preview {
        letter_id: id,
        exchange: exchange.map(natural::text),
        routing_key: routing_key.map(natural::text),
        topic: topic.map(natural::text),
        partition,
        properties: query::properties(&publish.message),
        headers: serde_json::from_slice(&headers).unwrap_or_default(),
        body_bytes: publish.message.body.map_or(0, |body| body.len()),
    }
}

/// Why somebody decides so, for the audit trail.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Decision {
    reason: Option<String>,
}

macro_rules! decision {
    ($(#[$doc:meta])* $name:ident, $path:literal, $action:expr) => {
        $(#[$doc])*
        #[utoipa::path(
            post, path = $path, tag = "letters", params(("id" = i64, Path)), request_body = Decision,
            responses((status = 200, body = Letter), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
        )]
        pub(crate) async fn $name(
            State(state): State<HttpState>,
            Operator(caller): Operator,
            Id(id): Id,
            Input(decision): Input<Decision>,
        ) -> Result<Json<Letter>, LettersError> {
            state.store.act(id, $action, &caller.actor, decision.reason.as_deref()).await?;
            let mut letter = state.store.letter(id).await?.ok_or(LettersError::NotFound(id))?;
            if !caller.bodies {
                letter.withhold_body();
            }
            Ok(Json(letter))
        }
    };
}

decision!(
    /// Nobody will send it home.
    discard, "/letters/{id}/discard", Action::Discard
);
decision!(
    /// Back to FAILED, nothing due.
    reopen, "/letters/{id}/reopen", Action::Reopen
);
decision!(
    /// Somebody saw to it by other means.
    resolve, "/letters/{id}/resolve", Action::Resolve
);

#[cfg(test)]
mod tests;
