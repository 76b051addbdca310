import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { algorithmNames, rowOf } from '../../algorithms/index.ts';
import { MAX_COUNT } from '../../algorithms/limit.ts';

/** A script, and the name that Redis knows it by once it has run. */
export interface Script {
  readonly text: string;
  readonly sha1: string;
}

/**
 * A step on counters that hold no state: a Lua file with functions of its name, and with `_refund` and `_load` after
 * it.
 */
export interface ForeignStep {
  readonly name: string;
  readonly url: URL;
}

const read = (url: URL): string => readFileSync(url, 'utf8');

/** The algorithms before this place, for one that calls them. */
const others = (at: number): readonly string[] => [
  `local other_steps = { ${algorithmNames.slice(0, at).join(', ')} }`,
  `local other_refunds = { ${algorithmNames
    .slice(0, at)
    .map((name) => `${name}_refund`)
    .join(', ')} }`,
];

/** The one script that decides in Redis: every algorithm's Lua twin, then the dispatcher that calls them. */
export const script: Script = assembleScript([]);

/** The same, with steps on other counters besides. */
export function assembleScript(foreign: readonly ForeignStep[]): Script {
  const names = [...algorithmNames, ...foreign.map(({ name }) => name)];
  const windowed = algorithmNames.filter((name) => rowOf(name).expiresWithWindow);
  const loaders = foreign.map(({ name }, at) => `[${algorithmNames.length + 1 + at}] = ${name}_load`);
  const text = [
    `local MAX_COUNT = ${MAX_COUNT}`,
    ...algorithmNames.flatMap((name, at) => [...(rowOf(name).callsOthers ? others(at) : []), read(rowOf(name).script)]),
    ...foreign.map(({ url }) => read(url)),
    `local windowed = { ${windowed.map((name) => `[${name}] = true`).join(', ')} }`,
    `local steps = { ${names.join(', ')} }`,
    `local refunds = { ${names.map((name) => `${name}_refund`).join(', ')} }`,
    `local loaders = { ${loaders.join(', ')} }`,
    read(new URL('./dispatcher.lua', import.meta.url)),
  ].join('\n');
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
