//! `letters`: look at them, act on them.

pub(super) mod act;
pub(super) mod list;
pub(super) mod look;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::problem::Problem;
use crate::{
    policy::target::BadTarget,
    store::{ActionError, QueryError, query::BadTerm},
};

/// Why a request about letters was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum LettersError {
    #[error(transparent)]
    Term(#[from] BadTerm),
    #[error("{0}")]
    Page(String),
    #[error("there is no letter {0}")]
    NotFound(i64),
    #[error("letter {0} has no body: there was none")]
    NoBody(i64),
    #[error(transparent)]
    Target(#[from] BadTarget),
    #[error("{0} with a replay is not in this version")]
    NotYet(&'static str),
    #[error(transparent)]
    Action(#[from] ActionError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("you may not")]
    Refused(Problem),
}

impl From<Problem> for LettersError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<LettersError> for Problem {
    fn from(error: LettersError) -> Self {
        let no_way = |detail: String| {
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "no-target", "It cannot be sent there", detail)
        };
        let conflict = |kind, detail: String| Self::new(StatusCode::CONFLICT, kind, "Not as it stands", detail);
        match error {
            LettersError::Term(BadTerm::Value { term, .. }) => Self::bad_request(error).with("term", term),
            LettersError::Term(_) | LettersError::Page(_) => Self::bad_request(error),
            LettersError::NotFound(_) | LettersError::NoBody(_) | LettersError::Action(ActionError::NotFound(_)) => {
                Self::not_found(error)
            }
            LettersError::Target(_) | LettersError::NotYet(_) => no_way(error.to_string()),
            LettersError::Action(action) => match action {
                ActionError::NoWay(detail) => no_way(detail),
                ActionError::Status { letter, ref status, .. } => {
                    conflict("status", action.to_string()).with("letter", letter).with("letter_status", status.as_str())
                }
                ActionError::UnderWay { letter, replay } => {
                    conflict("under-way", action.to_string()).with("letter", letter).with("replay", replay)
                }
                ActionError::Query(query) => query.into(),
                ActionError::NotFound(_) => Self::not_found(action),
            },
            LettersError::Query(query) => query.into(),
            LettersError::Refused(problem) => problem,
        }
    }
}

impl IntoResponse for LettersError {
    fn into_response(self) -> Response {
        Problem::from(self).into_response()
    }
}
