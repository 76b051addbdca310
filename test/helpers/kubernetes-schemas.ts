import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { CACHE, goSource, install, isThere, kubernetesSchemas } from './tools.ts';

/** The parts of a JSON schema, in Kubernetes' OpenAPI dialect, that are read or changed here. */
interface Schema {
  type?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  oneOf?: Schema[];
  'x-kubernetes-int-or-string'?: boolean;
  'x-kubernetes-preserve-unknown-fields'?: boolean;
}
interface Crd {
  readonly kind: string;
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

/** The paths of custom resource definitions in other projects: files or folders. */
const DEFINITIONS = [
  ['github.com/prometheus-operator/prometheus-operator', 'example/prometheus-operator-crd'],
  ['github.com/projectcontour/contour', 'examples/contour/01-crds.yaml'],
  ['istio.io/api', 'kubernetes/customresourcedefinitions.gen.yaml'],
  ['github.com/envoyproxy/gateway', 'charts/gateway-helm/charts/crds/crds/generated'],
  ['github.com/envoyproxy/gateway', 'charts/gateway-helm/charts/crds/crds/gatewayapi-crds.yaml'],
  ['github.com/envoyproxy/ai-gateway', 'manifests/charts/ai-gateway-crds-helm/templates'],
] as const;

/**
 * Folder with JSON schemas that allow no unknown fields, for built-in and custom resources, named as in
 * `schemaLocations`. They are written once for each state of this file and of the pinned sources.
 */
export async function schemaFolder(kubernetesVersion: string): Promise<string> {
  const hash = createHash('sha256');
  for (const file of ['kubernetes-schemas.ts', 'tools.ts']) hash.update(readFileSync(new URL(file, import.meta.url)));
  const folder = join(CACHE, `schemas-${kubernetesVersion}-${hash.digest('hex').slice(0, 12)}`);
  if (!(await isThere(folder)))
    await install(folder, async (into) => {
      mkdirSync(into);
      await writeOwn(into, kubernetesVersion);
      await writeCustom(into);
    });
  return folder;
}

/** The schema locations for kubeconform. */
export const schemaLocations = (folder: string): readonly string[] => [
  `${folder}/{{.ResourceKind}}{{.KindSuffix}}.json`,
  `${folder}/{{.ResourceKind}}_{{.Group}}_{{.ResourceAPIVersion}}.json`,
];

/** The schemas refer to each other by URLs, which kubeconform would fetch: replaces them by local files. */
async function writeOwn(folder: string, version: string): Promise<void> {
  const place = join(await kubernetesSchemas(), `v${version}-local-strict`);
  for (const name of readdirSync(place)) {
    const text = readFileSync(join(place, name), 'utf8');
    writeFileSync(
      join(folder, name),
      text.replace(/,\s*"\$id": "[^"]*"/, '').replaceAll('"/api/_definitions.json#', '"_definitions.json#'),
    );
  }
}

async function writeCustom(folder: string): Promise<void> {
  for (const [module, path] of DEFINITIONS) {
    const place = join(await goSource(module), path);
    const files = statSync(place).isDirectory() ? readdirSync(place).map((name) => join(place, name)) : [place];
    for (const crd of files.filter((name) => /\.ya?ml$/.test(name)).flatMap(readCrds)) {
      for (const { name, schema } of crd.spec.versions) {
        const target = `${crd.spec.names.kind}_${crd.spec.group}_${name}.json`.toLowerCase();
        writeFileSync(join(folder, target), JSON.stringify(withoutFurtherFields(schema.openAPIV3Schema, true)));
      }
    }
  }
}

const readCrds = (file: string): readonly Crd[] =>
  (loadAll(readFileSync(file, 'utf8')) as readonly (Crd | null)[]).filter(
    (crd): crd is Crd => crd?.kind === 'CustomResourceDefinition',
  ); // Kubernetes' format

/** Like the API server's pruning: forbids undeclared fields, except those that every resource has. */
function withoutFurtherFields(schema: Schema, isTop = false): Schema {
  const { properties, items, additionalProperties } = schema;
  if (schema['x-kubernetes-int-or-string']) return { oneOf: [{ type: 'string' }, { type: 'integer' }] };
  const known = properties && {
    ...Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, withoutFurtherFields(value)])),
    ...(isTop && { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' } }),
  };
  return {
    ...schema,
    ...(known && { properties: known }),
    ...(items && { items: withoutFurtherFields(items) }),
    ...(typeof additionalProperties === 'object' && {
      additionalProperties: withoutFurtherFields(additionalProperties),
    }),
    ...(known &&
      additionalProperties === undefined &&
      !schema['x-kubernetes-preserve-unknown-fields'] && { additionalProperties: false }),
  };
}
