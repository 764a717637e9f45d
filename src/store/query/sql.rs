//! Selection terms as conditions of a WHERE clause.

use sqlx::{Postgres, QueryBuilder};

use super::{
    pattern::{Pattern, holds},
    terms::{Filter, Term},
};
use crate::dead_letter::Status;

/// How the JSONPaths of a filter are asked: as predicates (`@@`) or for what they find (`@?`).
pub(super) type Predicates = Vec<bool>;

impl Filter {
    /// The JSONPaths, in their order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter_map(|term| match term {
            Term::Payload(path) => Some(path.as_str()),
            _ => None,
        })
    }

    /// Appends ` AND …` for every term. `predicates` answers for each of [`Filter::paths`].
    pub(super) fn push(&self, sql: &mut QueryBuilder<'_, Postgres>, predicates: &Predicates) {
        let mut predicates = predicates.iter();
        for term in &self.terms {
            sql.push(" AND ");
            match term {
                Term::Ids(ids) => push_any(sql, "id", ids.clone()),
                Term::Group(groups) => push_any(sql, "failure_group_id", groups.clone()),
                Term::ReplayOf(firsts) => push_any(sql, "replay_of", firsts.clone()),
                Term::Status(statuses) => push_status(sql, statuses),
                Term::Text { columns, patterns } => push_texts(sql, columns, patterns),
                Term::Key(patterns) => {
                    push_texts(sql, &["origin_routing_key", "encode(message_key, 'escape')"], patterns)
                }
                Term::Since(at) => drop(sql.push("created_at >= ").push_bind(*at)),
                Term::Until(at) => drop(sql.push("created_at < ").push_bind(*at)),
                Term::Payload(path) => {
                    let operator = if predicates.next().copied().unwrap_or(false) { "@@" } else { "@?" };
                    sql.push(format!("payload {operator} ")).push_bind(path.clone()).push("::text::jsonpath");
                }
                Term::Header { name, value } => push_header(sql, name, value.as_ref()),
                Term::Words(words) => push_words(sql, words),
            }
        }
    }
}

fn push_any(sql: &mut QueryBuilder<'_, Postgres>, column: &str, numbers: Vec<i64>) {
    sql.push(format!("{column} = ANY (")).push_bind(numbers).push(")");
}

/// Words of a closed set go in as constants, so that partial indexes can be used.
fn push_status(sql: &mut QueryBuilder<'_, Postgres>, statuses: &[Status]) {
    let words: Vec<String> = statuses.iter().map(|status| format!("'{}'", status.as_str())).collect();
    sql.push(format!("status IN ({})", words.join(", ")));
}

fn push_texts(sql: &mut QueryBuilder<'_, Postgres>, columns: &[&str], patterns: &[Pattern]) {
    sql.push("(");
    let mut first = true;
    for column in columns {
        for pattern in patterns {
            if !first {
                sql.push(" OR ");
            }
            first = false;
            push_like(sql, column, pattern);
        }
    }
    sql.push(")");
}

fn push_like(sql: &mut QueryBuilder<'_, Postgres>, expression: &str, pattern: &Pattern) {
    match pattern {
        Pattern::Exact(text) => sql.push(format!("{expression} = ")).push_bind(text.clone()),
        Pattern::Like(like) => sql.push(format!("{expression} LIKE ")).push_bind(like.clone()),
    };
}

/// A header may be there several times; then its natural form is an array.
fn push_header(sql: &mut QueryBuilder<'_, Postgres>, name: &str, value: Option<&Pattern>) {
    let Some(pattern) = value else {
        sql.push("headers ? ").push_bind(name.to_owned());
        return;
    };
    sql.push("EXISTS (SELECT FROM jsonb_path_query(headers -> ").push_bind(name.to_owned());
    sql.push(", 'lax $[*]') AS one (value) WHERE ");
    push_like(sql, "one.value #>> '{}'", pattern);
    sql.push(")");
}

fn push_words(sql: &mut QueryBuilder<'_, Postgres>, words: &[String]) {
    sql.push("(true");
    for word in words {
        let like = holds(word);
        sql.push(" AND (error_message ILIKE ").push_bind(like.clone());
        sql.push(" OR traceback ILIKE ").push_bind(like.clone());
        sql.push(" OR CASE WHEN payload IS NOT NULL THEN payload::text ELSE encode(body, 'escape') END ILIKE ");
        sql.push_bind(like).push(")");
    }
    sql.push(")");
}
