//! Runs the example server over stdio.

fn main() -> std::io::Result<()> {
    context_guard_property_server::serve(std::io::stdin().lock(), std::io::stdout())
}
