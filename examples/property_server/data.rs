//! Bookings, listings, transactions and a log, generated from their numbers.

use serde_json::{Value, json};

const GUESTS: [&str; 12] = [
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Edsger Dijkstra",
    "Barbara Liskov",
    "Donald Knuth",
    "Radia Perlman",
    "Ken Thompson",
    "Frances Allen",
    "Niklaus Wirth",
    "Margaret Hamilton",
    "Tony Hoare",
];
const CITIES: [&str; 6] = ["Lisbon", "Porto", "Faro", "Braga", "Évora", "Coimbra"];
const STATUS: [&str; 3] = ["confirmed", "pending", "cancelled"];

fn pick<'a>(choices: &[&'a str], number: usize) -> &'a str {
    choices.get(number % choices.len()).copied().unwrap_or_default()
}

fn day(number: usize) -> String {
    format!("2026-{:02}-{:02}", number / 28 % 12 + 1, number % 28 + 1)
}

/// Returns a booking in brief.
pub(crate) fn booking(number: usize) -> Value {
    json!({
        "id": format!("BK-{number:04}"),
        "guest": pick(&GUESTS, number * 7),
        "status": pick(&STATUS, number * number / 3),
        "checkIn": day(number),
        "nights": number % 9 + 1,
        "total": (number % 9 + 1) * (60 + number % 40),
    })
}

/// Returns a listing.
pub(crate) fn listing(number: usize) -> Value {
    let adjective = pick(&["Sunny", "Quiet", "Bright", "Old"], number);
    let kind = pick(&["loft", "house", "flat"], number / 4);
    let city = pick(&CITIES, number);
    json!({
        "id": format!("LS-{number:03}"),
        "title": format!("{adjective} {kind} in {city}"),
        "city": city,
        "sleeps": number % 7 + 1,
        "nightly": 60 + number % 40,
    })
}

/// Returns a payment or refund.
pub(crate) fn transaction(number: usize) -> Value {
    let cents = (number * 7_919) % 90_000 + 1_000;
    json!({
        "id": format!("TX-{number:05}"),
        "booking": format!("BK-{:04}", number % 500),
        "kind": if number.is_multiple_of(11) { "refund" } else { "payment" },
        "cents": cents,
        "at": format!("{}T{:02}:15:00Z", day(number), number % 24),
    })
}

/// Returns all details of a booking, far more than a model needs.
pub(crate) fn details(number: usize) -> Value {
    let lines: Vec<Value> = (0..40)
        .map(|line| {
            let night = line + 1;
            json!({
                "date": day(number + line),
                "description": format!("Night {night} at the agreed rate, cleaning and city tax included"),
                "net": 61.5,
                "tax": 3.7,
                "gross": 65.2,
            })
        })
        .collect();
    let messages: Vec<Value> = (0..12)
        .map(|at| {
            json!({
                "from": if at % 2 == 0 { "guest" } else { "host" },
                "at": day(number + at),
                "text": "Could we arrive a little earlier, and is there a place nearby where two bicycles can stand safely over night?",
            })
        })
        .collect();
    json!({
        "id": format!("BK-{number:04}"),
        "status": pick(&STATUS, number),
        "guest": {
            "name": pick(&GUESTS, number * 7),
            "email": format!("guest{number}@example.com"),
            "languages": ["pt", "en"],
        },
        "property": listing(number % 300),
        "checkIn": day(number),
        "checkOut": day(number + 5),
        "financial": {"currency": "EUR", "lines": lines, "total": 2_608.0},
        "messages": messages,
        "policies": {
            "cancellation": "Free until fourteen days before arrival, half of the price after that, all of it within two days.",
            "smoking": false,
            "pets": "on request",
        },
    })
}

/// Returns 10,000 lines of a log, with a stack trace in about every fiftieth entry.
pub(crate) fn log() -> String {
    let mut lines: Vec<String> = Vec::with_capacity(10_000);
    let mut entry = 0usize;
    while lines.len() < 10_000 {
        let time = format!("{:02}:{:02}:{:02}", entry / 3_600, entry / 60 % 60, entry % 60);
        if entry % 50 == 33 && lines.len() + 4 <= 10_000 {
            lines.push(format!("{time} ERROR sync {entry} failed"));
            lines.push("Traceback: timeout".to_owned());
            lines.push("  at sync.push(42)".to_owned());
            lines.push("  at main.loop(7)".to_owned());
        } else {
            let level = if entry % 17 == 5 { "WARN" } else { "INFO" };
            lines.push(format!("{time} {level} sync {entry} ok"));
        }
        entry += 1;
    }
    lines.join("\n") + "\n"
}
