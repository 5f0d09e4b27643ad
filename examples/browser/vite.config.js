import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  // The package loads its module from its own folder.
  optimizeDeps: { exclude: ["context-guard"] },
  build: { target: "es2022" },
});
