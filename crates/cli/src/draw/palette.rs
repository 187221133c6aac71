//! Colours of all drawings, after Okabe and Ito's palette that colour-blind people can tell apart
//! (<https://jfly.uni-koeln.de/color/>). Colour never carries a meaning alone: a glyph, a hatching or a word does too.

use anstyle::{Ansi256Color, AnsiColor, Style};
use model::Severity;

/// What a piece of a drawing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Ordinary text.
    Plain,
    /// The name of the machine.
    Title,
    /// Frames, separators and other scaffolding.
    Frame,
    /// Captions and units.
    Muted,
    /// Name of a package or socket.
    Package,
    /// Name of a NUMA node.
    Node,
    /// Name of a last-level cache or die.
    Llc,
    /// A core of the only or the fastest kind.
    Core,
    /// A core between.
    MiddleCore,
    /// A core of the slowest kind.
    SlowCore,
    /// A CPU taken out of load balancing.
    Isolated,
    /// A VM, by its number; the colours repeat after [`VM_COLOURS`].
    Vm(u8),
    /// A CPU that is offline or not allowed, a vCPU slot without vCPU.
    Absent,
    /// Label of a finding that is good to know.
    Info,
    /// Label of a finding that costs performance.
    Warning,
    /// Label of a finding that does not work.
    Error,
}

impl Role {
    /// The role of a finding's label.
    pub fn of_severity(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Info,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }

    /// Colour on a terminal: middle tones of the 256-colour cube, readable on dark and on light backgrounds.
    pub fn ansi(self) -> Style {
        let tone = |index: u8| Style::new().fg_color(Some(Ansi256Color(index).into()));
        match self {
            Self::Plain => Style::new(),
            Self::Title | Self::Package => Style::new().bold(),
            Self::Frame | Self::Muted => Style::new().fg_color(Some(AnsiColor::BrightBlack.into())),
            Self::Node => tone(32),
            Self::Llc => tone(36),
            Self::Core | Self::Info => tone(74),
            Self::MiddleCore => tone(144),
            Self::SlowCore | Self::Warning => tone(172),
            Self::Isolated => tone(175),
            Self::Vm(number) => tone(VM_TONES[usize::from(number) % VM_COLOURS]),
            Self::Absent => tone(246),
            Self::Error => tone(166).bold(),
        }
    }

    /// Colour of strokes, fills of small marks and text in SVG, as `#rrggbb`; dark enough to read on [`PAPER`].
    pub fn hex(self) -> &'static str {
        match self {
            Self::Plain | Self::Title | Self::Package => "#1f2933",
            Self::Frame => "#9aa5b1",
            Self::Muted => "#52606d",
            Self::Node | Self::Info => "#0072b2",
            Self::Llc => "#00684c",
            Self::Core => "#56b4e9",
            Self::MiddleCore => "#f0e442",
            Self::SlowCore => "#e69f00",
            Self::Isolated => "#cc79a7",
            Self::Vm(number) => VM_FILLS[usize::from(number) % VM_COLOURS],
            Self::Absent => "#cbd2d9",
            Self::Warning => "#b25a00",
            Self::Error => "#d55e00",
        }
    }
}

/// Colours that VMs take in turn: as many as stay apart for colour-blind eyes, and a prime number, since VMs that share
/// a core often are 8 or 16 apart. Letters tell VMs of one colour apart.
pub const VM_COLOURS: usize = 7;
const VM_TONES: [u8; VM_COLOURS] = [32, 172, 36, 175, 74, 144, 166];
/// Light enough for a name in [`CORE_INK`].
const VM_FILLS: [&str; VM_COLOURS] = [
    "#7db8e0", "#f5c15c", "#7fd3b5", "#e3aecb", "#b5e0f7", "#f3ea86", "#f2a27c",
];

/// Fill and edge of a core in SVG: light enough for a CPU number in [`CORE_INK`].
pub fn core_fill(role: Role) -> (&'static str, &'static str) {
    match role {
        Role::MiddleCore => ("#f5ec85", "#b3a716"),
        Role::SlowCore => ("#f5c15c", "#b87f00"),
        _ => ("#9bd3f2", "#2f8fc4"),
    }
}

/// Background of SVG drawings: their own, so that they read the same on light and dark pages.
pub const PAPER: &str = "#ffffff";
/// Fill of a package.
pub const PACKAGE_FILL: &str = "#f5f7fa";
/// Fill of a NUMA node.
pub const NODE_FILL: &str = "#e3effa";
/// Edge of a NUMA node.
pub const NODE_EDGE: &str = "#9cc4e4";
/// Fill of a last-level cache.
pub const LLC_FILL: &str = "#d9f2e8";
/// Edge of a last-level cache.
pub const LLC_EDGE: &str = "#8fcfb5";
/// Fill of an offline CPU.
pub const OFFLINE_FILL: &str = "#eceff2";
/// Fill of a CPU that is online but not allowed.
pub const FORBIDDEN_FILL: &str = "#fbe0d2";
/// Ink on a core.
pub const CORE_INK: &str = "#102a43";
/// Fonts every desktop has one of.
pub const SANS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";
