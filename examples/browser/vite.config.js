import { realpathSync } from "node:fs";
import { defineConfig, searchForWorkspaceRoot } from "vite";

export default defineConfig({
  base: "./",
  // The package loads its module from its own folder.
  optimizeDeps: { exclude: ["context-guard"] },
  // npm installs the package as a link to a folder outside of this one.
  server: { fs: { allow: [searchForWorkspaceRoot(process.cwd()), realpathSync("node_modules/context-guard")] } },
  build: { target: "es2022" },
});
