import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Command } from 'ioredis';
import { type RateName, rateNames } from '../../algorithms/index.ts';
import { MAX_COUNT, peekedHits } from '../../algorithms/limit.ts';
import { holdListScript } from '../../holds/hold-list.ts';
import { type AlgorithmName, algorithmNames, findRow } from '../../holds/limits.ts';
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

/** What Redis must know of an algorithm besides its steps. */
function listTraits(name: AlgorithmName): readonly (readonly [string, string])[] {
  const row = findRow(name);
  const { length } = row.state;
  return [
    ['is_windowed', String(row.windows !== undefined)],
    ['peeked_hits', String(peekedHits(row))],
    ['state_length', length === undefined ? 'nil' : String(length)],
  ];
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
      const more = [...listTraits(name), ['reserves', String(row.reserves === true)]].map(
        ([trait, value]) => `${trait} = ${value}`,
      );
      const step = nameStep(row.script);
      if (row.state.hasNodes) more.push(`fields = ${step}_fields`);
      const urls = [...(row.hasHolders ? [holdListScript] : []), ...(row.includes ?? []), row.script];
      return { place: at + 1, step, urls, more: more.join(', ') };
    }),
    ...foreign.map((url, at) => ({
      place: algorithmNames.length + at + 1,
      step: nameStep(url),
      urls: [url],
      more: `load = ${nameStep(url)}_load`,
    })),
  ];
  return createScript([
    ...counters,
    'local algorithms = {}',
    'setmetatable(algorithms, { __index = function(_, place)',
    ...algorithms.flatMap(({ place, step, urls, more }) => [
      `if place == ${place} then`,
      ...urls.map(read),
      `algorithms[place] = { step = ${step}, refund = ${step}_refund, ${more} }`,
      'end',
    ]),
    'return rawget(algorithms, place)',
    'end })',
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
      `local step = ${nameStep(findRow(name).script)}`,
      ...listTraits(name).map(([trait, value]) => `local ${trait} = ${value}`),
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
 * EVALSHA whose reply is a `Buffer`. Its texts are joined and written at once: ioredis measures and copies every
 * argument several times if one of them is a `Buffer`, and a batch has hundreds.
 *
 * @see https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
export class ScriptCommand extends Command {
  readonly #slot: number | undefined;

  /**
   * @param args  those of EVALSHA: the script's digest, the number of keys, and so on
   * @param slot  of its keys on a Cluster, if it is known
   */
  constructor(args: (string | Buffer)[], slot?: number) {
    super('EVALSHA', [], { replyEncoding: null });
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
