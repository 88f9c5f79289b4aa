//! The files that scripts are composed of, and their statements.

use core::fmt;
use std::fs;
use std::path::Path;

use super::super::compose;

/// A file in `src/scripts`.
pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) text: String,
}

/// A line of a file, counted from one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// All files, in the order of their names.
pub(super) fn source_files() -> Vec<SourceFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
    let mut files: Vec<SourceFile> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            SourceFile { name, text: fs::read_to_string(path).unwrap() }
        })
        .collect();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(files.len() > 10, "the files are somewhere else");
    files
}

/// Where each line of a composed script comes from. `None` for lines that no file has.
pub(super) fn origins(script: &str, files: &[SourceFile]) -> Vec<Option<Origin>> {
    let mut origins = vec![None; script.lines().count()];
    for file in files {
        let mut first = 1;
        // A file may enclose another one.
        for part in file.text.split_inclusive("-- ALGORITHM\n") {
            let composed = compose(&[part]);
            if let Some(at) = script.find(&composed) {
                let from = script[..at].lines().count();
                for line in 0..composed.lines().count() {
                    origins[from + line] =
                        Some(Origin { file: file.name.clone(), line: first + line });
                }
            }
            first += part.lines().count();
        }
    }
    origins
}

/// What a token is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Statements.
    Block,
    /// The condition of a statement, up to `then` or `do`.
    Condition,
    /// Parentheses, brackets or braces.
    Brackets,
}

/// Whether each line begins with a statement. The lines must be valid Lua.
pub(super) fn statements(script: &str) -> Vec<bool> {
    let (mut stack, mut before) = (Vec::new(), String::new());
    let mut begins = Vec::new();
    for line in script.lines() {
        let tokens = tokens(line);
        let in_block = stack.last().is_none_or(|inside| *inside == Inside::Block);
        let starts = tokens.first().is_some_and(|first| can_start(first));
        begins.push(in_block && starts && !is_open(&before));
        for token in &tokens {
            match *token {
                "if" | "while" | "for" => stack.push(Inside::Condition),
                "elseif" => {
                    stack.pop();
                    stack.push(Inside::Condition);
                }
                "then" | "do" => {
                    if stack.last() == Some(&Inside::Condition) {
                        stack.pop();
                    }
                    stack.push(Inside::Block);
                }
                "function" | "repeat" => stack.push(Inside::Block),
                "(" | "[" | "{" => stack.push(Inside::Brackets),
                "end" | "until" | ")" | "]" | "}" => drop(stack.pop()),
                _ => {}
            }
        }
        if let Some(last) = tokens.last() {
            before = (*last).to_owned();
        }
    }
    assert!(stack.is_empty(), "the end of a block was not found");
    begins
}

/// Whether a statement may start with this token.
fn can_start(token: &str) -> bool {
    let is_name = token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on = ["end", "else", "elseif", "until", "then", "and", "or"].contains(&token);
    is_name && !goes_on
}

/// Whether an expression goes on behind this token.
fn is_open(token: &str) -> bool {
    "=,+-*/%<>.~".contains(token) && !token.is_empty() || ["and", "or", "not"].contains(&token)
}

/// Names, numbers, strings and single symbols.
fn tokens(line: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() && !rest.starts_with("--") {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if rest.starts_with('\'') {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, c)| {
                let ends = *c == '\'' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.unwrap().0 + 1
        } else {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(1)
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind.trim_start();
    }
    tokens
}

#[test]
fn lines_that_begin_with_a_statement_are_found() {
    let script = "\
local a, b =
  f(1, function(x)
    return x == 'end)' -- then
  end)
if
  a
  or b
then
  a.b = { 1,
    2 }
elseif b then
  g()
    .h()
else
  repeat
    break
  until true
end
for i = 1, 2 do
  a = b and c
    or d
end
";
    let found: Vec<usize> = statements(script)
        .iter()
        .enumerate()
        .filter_map(|(line, begins)| begins.then_some(line + 1))
        .collect();
    assert_eq!(found, [1, 3, 5, 9, 12, 15, 16, 19, 20]);
}
