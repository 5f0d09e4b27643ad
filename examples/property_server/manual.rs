//! A long Markdown document.

use std::fmt::Write as _;

const CHAPTERS: [(&str, &str); 6] = [
    (
        "Arrival",
        "The entrance is on the courtyard side. Ring twice if the light is out, and wait for the second click before you push.",
    ),
    (
        "Heating",
        "The boiler follows the thermostat in the hall. Turn it down at night; the rooms keep their warmth until the morning.",
    ),
    (
        "Kitchen",
        "The hob switches itself off after an hour. Pans are in the lower drawer, and the good knives hang beside the window.",
    ),
    (
        "Laundry",
        "The machine is in the cellar. It takes half a measure of powder, and more of it makes the drum foam over.",
    ),
    (
        "Waste",
        "Paper goes out on Mondays, glass on the first Thursday. What is left over belongs in the grey bin by the gate.",
    ),
    (
        "Departure",
        "Leave the windows tilted and the keys in the box. A message when you go lets the next guests come in earlier.",
    ),
];

/// Returns the manual: 20 parts of 6 chapters, some with a code block.
pub(crate) fn text() -> String {
    let mut text = "# House manual\n\nFor everybody who stays with us.\n\n".to_owned();
    for part in 1..=20 {
        let _ = writeln!(text, "## House {part}\n");
        for (title, body) in CHAPTERS {
            let _ = writeln!(
                text,
                "### {title}\n\n{body} {body}\n\nIn house {part} this was last checked in spring. {body}\n"
            );
        }
        let _ = writeln!(text, "```\nwifi: house-{part}\n\ncode: {}\n```\n", part * 7_331);
    }
    text
}
