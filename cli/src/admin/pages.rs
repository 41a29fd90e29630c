//! A list of the server, page by page.
use super::api::{Api, Target, unexpected_answer};
use crate::{exit::Exit, failure::Failure};
use serde_json::Value;

/// The remaining pages of a list.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    api: Api<'a>,
    target: Target,
    /// The field of a page that has the items.
    items: &'static str,
    cursor: Cursor,
}

#[derive(Debug)]
enum Cursor {
    Start,
    Continuation(String),
    End,
}

impl<'a> Pages<'a> {
    pub(super) fn new(api: Api<'a>, target: Target) -> Self {
        Self {
            api,
            target,
            items: "items",
            cursor: Cursor::Start,
        }
    }

    /// Takes the items from this field of a page.
    pub(super) fn items_in(self, items: &'static str) -> Self {
        Self { items, ..self }
    }

    /// Returns the items of the next page, maybe none; `None` behind the last page.
    pub(super) async fn next_page(&mut self) -> Result<Option<Vec<Value>>, Failure> {
        let target = match &self.cursor {
            Cursor::Start => self.target.clone(),
            Cursor::Continuation(cursor) => self.target.clone().with("cursor", cursor),
            Cursor::End => return Ok(None),
        };
        let mut page = self.api.get(&target).await?;
        let Some(Value::Array(items)) = page.get_mut(self.items).map(Value::take) else {
            return Err(unexpected_answer(self.target.path()));
        };
        let next = match page.get_mut("next").map(Value::take) {
            None | Some(Value::Null) => Cursor::End,
            Some(Value::String(cursor)) => Cursor::Continuation(cursor),
            Some(cursor) => Cursor::Continuation(cursor.to_string()),
        };
        if let (Cursor::Continuation(next), Cursor::Continuation(present)) = (&next, &self.cursor)
            && next == present
        {
            return Err(Failure::new(
                Exit::NoResponse,
                format!("the server repeats a page of {}", self.target.path()),
            ));
        }
        self.cursor = next;
        Ok(Some(items))
    }
}
