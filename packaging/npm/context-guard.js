#!/usr/bin/env node
// Starts the program in the optional package for this platform. Nothing is downloaded.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import process from "node:process";

const isMusl =
  process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime;
const name = `context-guard-${process.platform}-${process.arch}${isMusl ? "-musl" : ""}`;
const file = process.platform === "win32" ? "context-guard.exe" : "context-guard";

let program;
try {
  program = createRequire(import.meta.url).resolve(`${name}/bin/${file}`);
} catch {
  console.error(
    `context-guard: the package ${name} is missing: this platform is not supported, or optional ` +
      "dependencies were left out; install without --omit=optional",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`context-guard: ${program} cannot be started: ${error.message}`);
  process.exit(126);
});
child.on("exit", (code, signal) => {
  if (signal) {
    // The default action of the signal ends this process, too.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code ?? 1);
  }
});
