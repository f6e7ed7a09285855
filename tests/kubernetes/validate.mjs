// Reads a JSON array of Kubernetes objects from stdin, and prints a JSON array with what is wrong with each: a list of texts.
//
// The validators are Kubernetes' OpenAPI schemas and the operators' CRDs, compiled. They let unknown fields pass; an API
// server drops such fields, and what was meant by them is silently not done. So objects are given to them by proxies that
// note which fields are asked for: a validator asks for each field that its schema has, present or not, so a field that is
// there and was never asked for is unknown.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const OPERATORS = {
  "keda.sh/v1alpha1": ["@kubernetes-models/keda", "ComGithubKedacoreKedaV2ApisKedaV1alpha1"],
  "monitoring.coreos.com/v1": ["@kubernetes-models/prometheus-operator",
    "ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1"],
};

/** The file with the schema of a kind: apps/v1 Deployment → kubernetes-models/_schemas/IoK8sApiAppsV1Deployment.js. */
function schemaFile({ apiVersion, kind }) {
  if (apiVersion in OPERATORS) {
    const [module, prefix] = OPERATORS[apiVersion];
    return `${module}/_schemas/${prefix}${kind}.js`;
  }
  const capital = (word) => word[0].toUpperCase() + word.slice(1);
  const [version, group = "core"] = apiVersion.split("/").reverse();
  return `kubernetes-models/_schemas/IoK8sApi${capital(group.split(".")[0])}${capital(version)}${kind}.js`;
}

async function validatorOf(object) {
  const file = join(process.env.ESPALIER_KUBERNETES_MODULES, "node_modules", schemaFile(object));
  return existsSync(file) ? (await import(pathToFileURL(file))).validate : null;
}

/** A value that notes in `watched` which fields of its objects are asked for. */
function watch(value, path, watched) {
  if (value === null || typeof value !== "object") return value;
  const asked = new Set();
  const children = new Map();
  if (!Array.isArray(value)) watched.push({ value, path, asked });
  return new Proxy(value, {
    get(target, key, receiver) {
      asked.add(key);
      if (!Object.hasOwn(target, key)) return Reflect.get(target, key, receiver);
      if (!children.has(key)) children.set(key, watch(target[key], `${path}/${key}`, watched));
      return children.get(key);
    },
  });
}

function unknownFields(watched) {
  // Nothing at all was asked of an object: its schema says nothing of its fields.
  return watched.filter(({ asked }) => asked.size > 0)
    .flatMap(({ value, path, asked }) => Object.keys(value).filter((key) => !asked.has(key))
      .map((key) => `${path}/${key}: unknown field`));
}

async function faults(object) {
  const validate = await validatorOf(object);
  if (validate === null) return [`there is no schema of ${object.apiVersion} ${object.kind}`];
  const watched = [];
  validate(watch(object, "", watched));
  const errors = (validate.errors ?? []).map(
    ({ instancePath, keyword, params }) => `${instancePath}: ${keyword} ${JSON.stringify(params)}`);
  return [...errors, ...unknownFields(watched)];
}

const objects = JSON.parse(readFileSync(0, "utf8"));
const results = [];
for (const object of objects) results.push(await faults(object));
process.stdout.write(JSON.stringify(results));
