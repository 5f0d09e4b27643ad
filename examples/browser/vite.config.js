import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  // The package finds its module beside itself.
  optimizeDeps: { exclude: ["context-guard"] },
  build: { target: "es2022" },
});
