//! A page of letters.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sqlx::{PgConnection, Postgres, QueryBuilder};

use super::{
    rows::{LIST_COLUMNS, LetterRow},
    sql::Predicates,
    terms::Filter,
};
use crate::store::{PgStore, QueryError, reading::answered};

/// The largest page.
pub const PAGE_MAX: u32 = 1000;

/// Where a page begins: below this id. Opaque outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(i64);

impl Cursor {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        std::str::from_utf8(&bytes).ok()?.strip_prefix("below:")?.parse().ok().map(Self)
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(format!("below:{}", self.0)))
    }
}

/// Some of many.
#[derive(Clone, Debug)]
pub struct PageOf<T> {
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<Cursor>,
}

impl PgStore {
    /// The newest letters of a selection, or those after `cursor`.
    pub async fn letters(
        &self,
        filter: &Filter,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<PageOf<LetterRow>, QueryError> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut reading = self.reading().await?;
        let predicates = predicates(reading.connection(), filter).await?;
        // Called by GET letters.
        let mut sql = QueryBuilder::<Postgres>::new(format!("SELECT {LIST_COLUMNS} FROM dead_letter_queue WHERE true"));
        filter.push(&mut sql, &predicates);
        if let Some(Cursor(below)) = cursor {
            sql.push(" AND id < ").push_bind(below);
        }
        sql.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit) + 1);
        let mut items: Vec<LetterRow> = answered(sql.build_query_as().fetch_all(reading.connection())).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| Cursor(last.id));
        Ok(PageOf { items, next })
    }
}

/// Refuses a bad JSONPath, and finds out which ones say true or false. `@?` is always true for those, and `@@`
/// never for the others; a probe tells them apart, since only a predicate answers about any value at all.
async fn predicates(connection: &mut PgConnection, filter: &Filter) -> Result<Predicates, QueryError> {
    let mut found = Vec::new();
    for path in filter.paths() {
        // Called by GET letters for each JSONPath.
        let probe = sqlx::query_scalar::<_, bool>(
            "SELECT jsonb_path_query_array('\"probe\"', $1::text::jsonpath, '{}', true) IN ('[true]', '[false]', '[null]')",
        );
        let answer = answered(probe.bind(path.to_owned()).fetch_one(&mut *connection)).await;
        found.push(answer.map_err(|error| match error {
            QueryError::Refused(reason) => QueryError::Refused(format!("payload: no JSONPath: {reason}")),
            other => other,
        })?);
    }
    Ok(found)
}
