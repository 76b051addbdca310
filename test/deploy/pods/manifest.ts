import { readFileSync } from 'node:fs';
import { load, loadAll } from 'js-yaml';

/** The properties of a pod's container that these tests use. */
export interface PodContainer {
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly securityContext?: { readonly runAsUser?: number };
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly template: { readonly spec: { readonly containers: readonly [PodContainer] } } };
}

/** The container of the Deployment of this name in a file of manifests. */
export function containerOf(file: string, deployment: string): PodContainer {
  const manifests = loadAll(readFileSync(file, 'utf8')) as readonly Manifest[]; // from a Go module with a pinned checksum
  const found = manifests.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === deployment);
  if (!found) throw new Error(`${file}: no Deployment ${deployment}`);
  return found.spec.template.spec.containers[0];
}

export const environmentOf = ({ env }: PodContainer): Record<string, string> =>
  Object.fromEntries(env.map(({ name, value }) => [name, value]));

export const readYaml = (file: string): unknown => load(readFileSync(file, 'utf8'));

export const readAllYaml = (file: string): readonly unknown[] => loadAll(readFileSync(file, 'utf8'));
