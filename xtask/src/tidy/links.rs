//! Links in documents lead somewhere.

use pulldown_cmark::{Event, Parser, Tag};

use super::{File, Tree, has_extension};

/// Relative links of Markdown files must name files or folders of the repository.
pub(super) fn check_links(tree: &Tree) -> Vec<String> {
    let documents = tree
        .files
        .iter()
        .filter(|file| has_extension(&file.path, &["md"]));
    documents
        .flat_map(|document| check_document(tree, document))
        .collect()
}

fn check_document(tree: &Tree, document: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (event, range) in Parser::new(&document.text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url: link, .. } | Tag::Image { dest_url: link, .. }) =
            event
        else {
            continue;
        };
        let target = link.split(['#', '?']).next().unwrap_or_default();
        let elsewhere = link.contains("://") || link.starts_with("mailto:");
        if elsewhere
            || target.is_empty()
            || resolve(&document.path, target).is_some_and(|path| is_there(tree, &path))
        {
            continue;
        }
        let number = 1 + document.text[..range.start].matches('\n').count();
        found.push(format!(
            "{}:{number}: link to {link} leads nowhere",
            document.path
        ));
    }
    found
}

/// The path of `target` seen from the folder of `document`; nothing if it leaves the repository.
fn resolve(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn is_there(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || tree.paths.contains(path)
        || tree.paths.iter().any(|it| it.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "\
[a](b.md) [up](../README.md#top) [folder](../docs) [web](https://example.org/x) [here](#x)
`[code](no.md)`
[gone](gone.md)
![picture](img/none.svg)
[out](../../x)
";
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")]);
        assert_eq!(
            check_links(&tree),
            [
                "docs/a.md:3: link to gone.md leads nowhere",
                "docs/a.md:4: link to img/none.svg leads nowhere",
                "docs/a.md:5: link to ../../x leads nowhere",
            ]
        );
    }
}
