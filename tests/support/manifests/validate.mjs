// Validates custom resources, a JSON object a line on standard input, with the schemas of their
// definitions. Run with the folder of the npm packages as argument.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import process from "node:process";

const SCHEMAS = {
  ServiceMonitor: "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
  EnvoyFilter: "@kubernetes-models/istio/networking.istio.io/v1alpha3",
};

const folder = process.argv[2];
let validated = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const resource = JSON.parse(line);
  const name = SCHEMAS[resource.kind];
  if (!name) {
    throw new Error(`no schema of ${resource.kind}`);
  }
  const [scope, part, ...path] = name.split("/");
  const file = `${folder}/node_modules/${scope}/${part}/${path.join("/")}/index.js`;
  const models = await import(pathToFileURL(file).href).catch(() =>
    createRequire(file)(file),
  );
  new models[resource.kind](resource).validate();
  validated += 1;
}
console.log(validated);
