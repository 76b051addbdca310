import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { checkWeir } from './check-weir.ts';
import { PROJECT, textOf } from './page.ts';
import type { SimpleCommand } from './shell.ts';

const CHART = 'deploy/helm/weir';
const isThere = (path: string): boolean => existsSync(join(PROJECT, path));

/** The values of a flag that may be repeated. */
const valuesOf = (words: readonly string[], flag: string): readonly string[] =>
  words.filter((_, at) => words[at - 1] === flag);

function hasValue(values: unknown, path: string): boolean {
  let at = values;
  for (const key of path.split('.')) {
    if (typeof at !== 'object' || at === null || !(key in at)) return false;
    at = (at as Readonly<Record<string, unknown>>)[key]; // it has the key
  }
  return true;
}

/** Lists the problems of `helm install NAME deploy/helm/weir --set …`; undefined: it installs another chart. */
export function checkHelm({ words }: SimpleCommand): readonly string[] | undefined {
  const [, verb = '', ...args] = words;
  if (!['install', 'upgrade', 'test'].includes(verb)) return undefined;
  if (args.every((arg) => arg.startsWith('--'))) return []; // a mention
  if (!args.includes(CHART)) return undefined;
  const values = load(textOf(`${CHART}/values.yaml`));
  return valuesOf(args, '--set').flatMap((set) => {
    const [path = '', value = ''] = set.split('=');
    if (path === 'preset' && !isThere(`${CHART}/ci/${value}-values.yaml`)) return [`the chart has no preset ${value}`];
    return hasValue(values, path) ? [] : [`the chart has no value ${path}`];
  });
}

/** Lists the problems of `docker compose -f FILE`, `docker buildx build -f FILE --build-arg NAME=…` and `docker run … weir:TAG …`. */
export function checkDocker({ words }: SimpleCommand): readonly string[] | undefined {
  const [file = ''] = valuesOf(words, '-f');
  const image = words.findIndex((word) => /^weir:\w+$/.test(word));
  if (words[1] === 'run' && image !== -1)
    return checkWeir({ assignments: [], words: ['weir', ...words.slice(image + 1)] }, false);
  if (file === '') return undefined;
  if (!isThere(file)) return [`there is no ${file}`];
  const text = textOf(file);
  return valuesOf(words, '--build-arg').flatMap((set) => {
    const [name] = set.split('=');
    return new RegExp(`^ARG ${name}\\b`, 'm').test(text) ? [] : [`${file} has no argument ${name}`];
  });
}

/** The service's default ports, and the ports in envoy.yaml. */
const PORTS = ['8080', '8081', '6070', '9901', '10000', '10001', '10002', '10003'];

/** Lists the problems of a call to a port of this machine; undefined: it calls another address. */
export function checkCall({ words }: SimpleCommand): readonly string[] | undefined {
  const ports = words.flatMap((word) => /^(?:http:\/\/)?localhost:(\d+)/.exec(word)?.[1] ?? []);
  if (ports.length === 0) return words.some((word) => /[:/]/.test(word)) ? undefined : [];
  return ports.filter((port) => !PORTS.includes(port)).map((port) => `nothing listens on port ${port}`);
}
