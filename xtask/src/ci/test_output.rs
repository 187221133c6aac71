//! What `cargo test -- --show-output` printed: how many tests passed, and which skipped themselves and why.

use std::fmt;

/// Sums over all test binaries.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    pub(crate) skipped: Vec<Skip>,
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The binary and the test whose output we are in.
    binary: String,
    test: String,
}

/// A test that printed `skipped: REASON` and returned.
#[derive(Debug)]
pub(crate) struct Skip {
    pub(crate) binary: String,
    test: String,
    reason: String,
}

impl TestOutput {
    /// Takes the next line of both of cargo's streams into account.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some(binary) = binary(line) {
            binary.clone_into(&mut self.binary);
        } else if let Some(test) = section(line) {
            test.clone_into(&mut self.test);
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            let (binary, test) = (self.binary.clone(), self.test.clone());
            self.skipped.push(Skip {
                binary,
                test,
                reason: reason.to_owned(),
            });
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
        }
    }
}

/// `Running tests/NAME.rs (target/debug/deps/NAME-0123456789abcdef)`, cargo's line before a binary's output.
fn binary(line: &str) -> Option<&str> {
    let (_, file) = line.split_once("Running ")?.1.rsplit_once("/deps/")?;
    Some(file.rsplit_once('-')?.0)
}

/// `---- NAME stdout ----`, the header of one test's output.
fn section(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// The number before `what` in `ok. 12 passed; 0 failed; 1 ignored; …`.
fn count(counts: &str, what: &str) -> u64 {
    let words: Vec<&str> = counts.split([' ', ';']).collect();
    let number = words.windows(2).find(|pair| pair[1] == what);
    number.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

impl fmt::Display for TestOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for skip in &self.skipped {
            writeln!(
                f,
                "skipped: {} ({}: {})",
                skip.reason, skip.binary, skip.test
            )?;
        }
        if self.ignored > 0 {
            writeln!(f, "{} ignored", self.ignored)?;
        }
        if self.passed + self.failed > 0 {
            writeln!(f, "{} passed, {} failed", self.passed, self.failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str =
        "     Running tests/guests.rs (target/debug/deps/real_guests-6d5bb534a2e77046)

running 3 tests
test a::one ... ok
test a::two ... ok

successes:

---- a::two stdout ----
skipped: no KVM on this machine


successes:
    a::one
    a::two

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn counts_are_summed_and_skips_are_named() {
        let mut output = TestOutput::default();
        OUTPUT.lines().for_each(|line| output.see(line));
        assert_eq!(
            output.to_string(),
            "skipped: no KVM on this machine (real_guests: a::two)\n1 ignored\n42 passed, 2 failed\n"
        );
    }

    #[test]
    fn no_tests_claim_no_numbers() {
        assert_eq!(TestOutput::default().to_string(), "");
    }
}
