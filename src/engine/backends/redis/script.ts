import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Command } from 'ioredis';
import { type RateName, rateNames } from '../../algorithms/index.ts';
import { MAX_COUNT, peekedHits } from '../../algorithms/limit.ts';
import { type AlgorithmName, algorithmNames, findRow } from '../../holds/limits.ts';
import { LEAF_NUMBERS, NODE_NUMBERS } from '../../holds/processor-sharing.ts';
import type { Compiled } from '../../lua/compiled-step.ts';

/** A script, and the digest by which Redis finds it once it has run. */
export interface Script {
  readonly text: string;
  readonly sha1: string;
}

const read = (source: URL | Compiled): string => (source instanceof URL ? readFileSync(source, 'utf8') : source.lua);

/** The function of a step: `fixed_window` of fixed-window.lua. */
const nameStep = (source: URL | Compiled): string =>
  source instanceof URL ? basename(source.pathname, '.lua').replaceAll('-', '_') : source.name;

const counters = [`local MAX_COUNT = ${MAX_COUNT}`, read(new URL('./counters.lua', import.meta.url))];

/** What Redis must know of an algorithm besides its refunds, as fields of a Lua table. */
function listTraits(name: AlgorithmName): string {
  const row = findRow(name);
  const step = nameStep(row.script);
  const windows = row.startBefore ? ['counts_window = not has_given_clock', `start_before = ${step}_start_before`] : [];
  return [
    `step = ${step}`,
    `peeked_hits = ${peekedHits(row)}`,
    `state_length = ${row.state.length ?? 'nil'}`,
    ...windows,
  ].join(', ');
}

/** The script that decides in Redis: every algorithm's Lua twin, and the dispatcher that calls them. */
export const script: Script = assembleScript([]);

/**
 * Assembles the script, with additional steps on counters in another format, whose files also define a function with
 * the suffix `_load`. An algorithm's functions are created when a limit of the batch first needs them: Redis runs the
 * whole text in each call, and the limits of a call use few algorithms.
 */
export function assembleScript(foreign: readonly URL[]): Script {
  const algorithms = [
    ...algorithmNames.map((name, at) => {
      const row = findRow(name);
      const step = nameStep(row.script);
      const more = [listTraits(name), `reserves = ${row.reserves === true}`];
      if (row.state.hasNodes) more.push('has_nodes = true');
      const urls = [...(row.includes ?? []), row.script];
      return { place: at + 1, step, urls, more: more.join(', ') };
    }),
    ...foreign.map((url, at) => ({
      place: algorithmNames.length + at + 1,
      step: nameStep(url),
      urls: [url],
      more: `step = ${nameStep(url)}, load = ${nameStep(url)}_load`,
    })),
  ];
  return createScript([
    ...counters,
    'local algorithms = {}',
    'setmetatable(algorithms, { __index = function(_, place)',
    ...algorithms.flatMap(({ place, step, urls, more }) => [
      `if place == ${place} then`,
      ...urls.map(read),
      `algorithms[place] = { refund = ${step}_refund, ${more} }`,
      'end',
    ]),
    'return rawget(algorithms, place)',
    'end })',
    `local NODE_NUMBERS, LEAF_NUMBERS = ${NODE_NUMBERS}, ${LEAF_NUMBERS}`,
    read(new URL('./nodes.lua', import.meta.url)),
    read(new URL('./requests.lua', import.meta.url)),
    read(new URL('./dispatcher.lua', import.meta.url)),
  ]);
}

/** The scripts that spend on one counter of a rate. */
export const loneScripts = Object.fromEntries(
  rateNames.map((name) => [
    name,
    createScript([
      ...counters,
      read(findRow(name).script),
      `local algorithm = { ${listTraits(name)} }`,
      read(new URL('./lone.lua', import.meta.url)),
    ]),
  ]),
) as Readonly<Record<RateName, Script>>; // has every name

function createScript(parts: readonly string[]): Script {
  const text = parts.join('\n');
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}

/** Longer arguments are rare; the header before each shorter one is cached. */
const MAX_KNOWN_LENGTH = 256;
const knownHeads: string[] = [];

/** The bytes between the previous argument and one of this length. */
const makeHead = (length: number): string => `\r\n$${length}\r\n`;

/**
 * A command whose texts in the reply are `Buffer`s. Its own texts are joined and written at once: ioredis measures and copies every
 * argument several times if one of them is a `Buffer`, and a batch has hundreds.
 *
 * @see https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
export class StoreCommand extends Command {
  readonly #slot: number | undefined;

  /**
   * @param slot  of its keys on a Cluster, if it is known
   */
  constructor(name: string, args: (string | Buffer)[], slot?: number) {
    super(name, [], { replyEncoding: null });
    this.args = args; // set here, since the constructor of ioredis would copy and convert each one
    this.#slot = slot;
  }

  override getSlot(): number {
    return this.#slot ?? super.getSlot();
  }

  override toWritable(socket: object): string | Buffer {
    const args = this.args as (string | Buffer)[]; // those of the constructor
    const parts: (string | Buffer)[] = [];
    let text = `*${args.length + 1}\r\n$${this.name.length}\r\n${this.name}`;
    let octets = 2;
    for (const arg of args) {
      text += findHead(arg.length);
      if (typeof arg === 'string') text += arg;
      else {
        octets += text.length + arg.length;
        parts.push(text, arg);
        text = '';
      }
    }
    parts.push(`${text}\r\n`);
    return joined(parts, octets + text.length) ?? new Command(this.name, args).toWritable(socket);
  }
}

function findHead(length: number): string {
  if (length > MAX_KNOWN_LENGTH) return makeHead(length);
  knownHeads[length] ??= makeHead(length);
  return knownHeads[length];
}

/**
 * Maximum octets of one character; the spare room holds text that is not ASCII, which has more octets than its length.
 */
const SPARE_OCTETS = 4;

/** @returns undefined if a text has characters of several octets */
function joined(parts: readonly (string | Buffer)[], octets: number): Buffer | undefined {
  const bytes = Buffer.allocUnsafe(octets + SPARE_OCTETS);
  let at = 0;
  for (const part of parts) {
    if (typeof part === 'string') {
      if (bytes.write(part, at, 'utf8') !== part.length) return undefined;
    } else bytes.set(part, at);
    at += part.length;
  }
  return bytes.subarray(0, octets);
}
