//! The line of a plain list, as the user wants it.

use super::InventoryProxy;

/// A line with placeholders: `{url}`, `{scheme}`, `{host}`, `{port}`, `{authority}` (`host:port` with
/// IPv6 in brackets), `{id}`, `{namespace}`, `{name}`. `{{` and `}}` stand for braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Url,
    Scheme,
    Host,
    Port,
    Authority,
    Id,
    Namespace,
    Name,
}

const FIELDS: [(&str, Field); 8] = [
    ("url", Field::Url),
    ("scheme", Field::Scheme),
    ("host", Field::Host),
    ("port", Field::Port),
    ("authority", Field::Authority),
    ("id", Field::Id),
    ("namespace", Field::Namespace),
    ("name", Field::Name),
];

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder that does not exist.
    #[error("{{{name}}} is not known here; use url, scheme, host, port, authority, id, namespace or name")]
    UnknownField {
        /// What stood between the braces.
        name: String,
    },
    /// A brace without its other half.
    #[error("a brace has no other half; write {{{{ or }}}} for a brace itself")]
    Brace,
    /// A control character, which would break the list into other lines.
    #[error("a template is one line without control characters")]
    Control,
}

impl Default for Template {
    fn default() -> Self {
        Self(vec![Part::Field(Field::Url)])
    }
}

impl std::str::FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        if text.chars().any(|c| c.is_control() && c != '\t') {
            return Err(TemplateError::Control);
        }
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' | '}' if rest.next_if_eq(&c).is_some() => plain.push(c),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(c) => name.push(c),
                            None => return Err(TemplateError::Brace),
                        }
                    }
                    let found = FIELDS.iter().find(|(known, _)| *known == name);
                    let (_, field) = found.ok_or(TemplateError::UnknownField { name })?;
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(Part::Field(*field));
                }
                '}' => return Err(TemplateError::Brace),
                c => plain.push(c),
            }
        }
        parts.push(Part::Text(plain));
        Ok(Self(parts))
    }
}

impl Template {
    /// The line of a proxy, without its end.
    #[must_use]
    pub fn line(&self, proxy: &InventoryProxy) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Field(Field::Url) => proxy.url.clone(),
                Part::Field(Field::Scheme) => proxy.scheme.clone(),
                Part::Field(Field::Host) => proxy.host.clone(),
                Part::Field(Field::Port) => proxy.port.to_string(),
                Part::Field(Field::Authority) => proxy.authority(),
                Part::Field(Field::Id) => proxy.id.to_string(),
                Part::Field(Field::Namespace) => proxy.id.namespace().to_owned(),
                Part::Field(Field::Name) => proxy.id.name().to_owned(),
            })
            .collect()
    }
}
