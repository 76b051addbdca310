import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { algorithmNames, rowOf } from '../../algorithms/index.ts';
import { MAX_COUNT } from '../../algorithms/limit.ts';

/** A script, and the digest by which Redis finds it once it has run. */
export interface Script {
  readonly text: string;
  readonly sha1: string;
}

/**
 * A step on counters in another format: a Lua file with functions of its name, and of its name with `_refund` and
 * `_load`.
 */
interface ForeignStep {
  readonly name: string;
  readonly url: URL;
}

const read = (url: URL): string => readFileSync(url, 'utf8');

/** The script that decides in Redis: every algorithm's Lua twin, and the dispatcher that calls them. */
export const script: Script = assembleScript([]);

/**
 * Assembles the script, with additional steps on other counters. An algorithm's functions are created when a limit of
 * the batch first needs them: Redis runs the whole text in each call, and the limits of a call use few algorithms.
 */
export function assembleScript(foreign: readonly ForeignStep[]): Script {
  const algorithms = [
    ...algorithmNames.map((name) => {
      const { script: url, expiresWithWindow = false, stateLength, peekedHits = 1 } = rowOf(name);
      const length = stateLength === undefined ? '' : `, state_length = ${stateLength}`;
      return { name, url, more: `is_windowed = ${expiresWithWindow}, peeked_hits = ${peekedHits}${length}` };
    }),
    ...foreign.map(({ name, url }) => ({ name, url, more: `load = ${name}_load` })),
  ];
  const text = [
    `local MAX_COUNT = ${MAX_COUNT}`,
    'local algorithms = {}',
    'setmetatable(algorithms, { __index = function(_, place)',
    ...algorithms.flatMap(({ name, url, more }, at) => [
      `if place == ${at + 1} then`,
      read(url),
      `algorithms[place] = { step = ${name}, refund = ${name}_refund, ${more} }`,
      'end',
    ]),
    'return rawget(algorithms, place)',
    'end })',
    read(new URL('./requests.lua', import.meta.url)),
    read(new URL('./dispatcher.lua', import.meta.url)),
  ].join('\n');
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
