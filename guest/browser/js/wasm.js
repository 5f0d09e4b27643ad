// Loads the module when the package is imported: a page fetches it from the URL beside this file,
// Node.js reads the file.
import { init } from "./load.js";

await init();
