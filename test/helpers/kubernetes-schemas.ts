import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { goSource, kubernetesSchemas } from './tools.ts';

/** As much of a JSON schema, in the dialect of OpenAPI that Kubernetes uses, as is read or changed here. */
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

/** Where the projects keep their definitions of custom resources: files, or folders of them. */
const DEFINITIONS = [
  ['github.com/prometheus-operator/prometheus-operator', 'example/prometheus-operator-crd'],
  ['istio.io/api', 'kubernetes/customresourcedefinitions.gen.yaml'],
  ['github.com/envoyproxy/gateway', 'charts/gateway-helm/charts/crds/crds/generated'],
  ['github.com/envoyproxy/gateway', 'charts/gateway-helm/charts/crds/crds/gatewayapi-crds.yaml'],
  ['github.com/envoyproxy/ai-gateway', 'manifests/charts/ai-gateway-crds-helm/templates'],
] as const;

/** Writes JSON schemas that know no further fields for Kubernetes' own resources and for custom ones, named as `schemaLocations` says. */
export async function writeSchemas(folder: string, kubernetesVersion: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await writeOwn(folder, kubernetesVersion);
  await writeCustom(folder);
}

/** Where kubeconform finds them. */
export const schemaLocations = (folder: string): readonly string[] => [
  `${folder}/{{.ResourceKind}}{{.KindSuffix}}.json`,
  `${folder}/{{.ResourceKind}}_{{.Group}}_{{.ResourceAPIVersion}}.json`,
];

/** They refer to each other by addresses, which kubeconform would fetch: files beside them are meant. */
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

/** As the API server prunes: what is not declared is not allowed, besides what every resource has. */
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
