//! Files and functions stay small enough to be read at once.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn};

use super::{File, Tree};

/// Lines of a file without its tests; house style.
const FILE_LINES: usize = 600;
/// Lines of a function from its `fn` to its last brace; house style.
const FUNCTION_LINES: usize = 70;

/// Measures crates and chores; tests may be as long as their tables.
pub(super) fn check_sizes(tree: &Tree) -> Vec<String> {
    tree.rust()
        .filter(|file| !is_test(&file.path))
        .flat_map(check_file)
        .collect()
}

/// `tests/…`, `benches/…`, and `foo/tests.rs` beside `foo.rs`.
fn is_test(path: &str) -> bool {
    path.split('/')
        .any(|part| ["tests", "benches", "tests.rs"].contains(&part))
}

fn check_file(file: &File) -> Vec<String> {
    let path = &file.path;
    let syntax = match syn::parse_file(&file.text) {
        Ok(syntax) => syntax,
        Err(error) => return vec![format!("{path}: does not parse: {error}")],
    };
    let mut sizes = Sizes::default();
    sizes.visit_file(&syntax);
    let mut found = Vec::new();
    let lines = file.text.lines().count().saturating_sub(sizes.test_lines);
    if lines > FILE_LINES {
        found.push(format!(
            "{path}: {lines} lines without tests, at most {FILE_LINES}: split it by idea"
        ));
    }
    for (name, line, lines) in sizes.functions {
        if lines > FUNCTION_LINES {
            found.push(format!(
                "{path}:{line}: fn {name} has {lines} lines, at most {FUNCTION_LINES}"
            ));
        }
    }
    found
}

#[derive(Default)]
struct Sizes {
    test_lines: usize,
    /// Name, first line, lines.
    functions: Vec<(String, usize, usize)>,
}

impl Sizes {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        self.functions
            .push((signature.ident.to_string(), first, last - first + 1));
    }

    /// Whether an item is for tests only; its lines then do not count.
    fn leave_out(&mut self, attributes: &[Attribute], span: Span) -> bool {
        let test_only = attributes.iter().any(is_test_attribute);
        if test_only {
            self.test_lines += span.end().line - span.start().line + 1;
        }
        test_only
    }
}

/// `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn is_test_attribute(attribute: &Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    }
}

impl Visit<'_> for Sizes {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        if !self.leave_out(&item.attrs, item.span()) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &ItemImpl) {
        if !self.leave_out(&item.attrs, item.span()) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &ItemFn) {
        if !self.leave_out(&item.attrs, item.span()) {
            self.add(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        if !self.leave_out(&item.attrs, item.span()) {
            self.add(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check_sizes(&Tree::of(&[(path, text)]))
    }

    /// A function of that many lines.
    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    f();\n".repeat(lines - 2))
    }

    #[test]
    fn long_functions_are_found_where_they_are() {
        let text = format!(
            "{}/// A doc.\n#[inline]\npub {}",
            function("short", 70),
            function("long", 71)
        );
        assert_eq!(
            complaints("crates/a/src/b.rs", &text),
            ["crates/a/src/b.rs:73: fn long has 71 lines, at most 70"]
        );
        let method = format!(
            "impl A {{\n{}}}\ntrait B {{\n{}}}\n",
            function("m", 80),
            function("d", 90)
        );
        assert_eq!(complaints("crates/a/src/b.rs", &method).len(), 2);
    }

    #[test]
    fn long_files_are_found_and_tests_do_not_count() {
        let code = "const A: u8 = 1;\n".repeat(600);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("table", 300));
        assert_eq!(
            complaints("xtask/src/b.rs", &format!("{code}{tests}")),
            [""; 0]
        );
        let other = tests.replace("cfg(test)", "cfg(not(test))");
        assert_eq!(
            complaints("xtask/src/b.rs", &format!("{code}{other}")).len(),
            2
        );
        assert_eq!(
            complaints("xtask/src/b.rs", &format!("{code}\n{tests}")),
            ["xtask/src/b.rs: 601 lines without tests, at most 600: split it by idea"]
        );
        assert_eq!(
            complaints("crates/a/src/b/tests.rs", &function("table", 700)),
            [""; 0]
        );
    }

    #[test]
    fn what_does_not_parse_is_a_complaint() {
        assert!(complaints("crates/a/src/b.rs", "fn (")[0].contains("does not parse"));
    }
}
