import { createHash } from 'node:crypto';
import { Command } from 'ioredis';
import { type RateName, rateNames } from '../../algorithms/index.ts';
import { type AlgorithmName, algorithmNames, findRow } from '../../holds/limits.ts';
import { compiled } from '../../lua/compiled.ts';
import { compiledScripts } from '../../lua/compiled-scripts.ts';

/** A script, and the digest by which Redis finds it once it has run. */
export interface Script {
  readonly text: string;
  readonly sha1: string;
}

/** What Redis must know of an algorithm, as fields of a Lua table. */
function listTraits(name: AlgorithmName): string {
  const row = findRow(name);
  const step = row.script.name;
  const more = [
    ...(row.startBefore ? ["countsWindow = (ARGV[2] or '') == ''", `startBefore = ${step}_start_before`] : []),
    ...(row.state.hasNodes ? ['hasNodes = true'] : []),
  ];
  return [
    `step = ${step}`,
    `refund = ${step}_refund`,
    `stateLength = ${row.state.length ?? 0}`,
    `reserves = ${row.reserves === true}`,
    ...more,
  ].join(', ');
}

/** The place of counters that are shared with envoyproxy/ratelimit in the script's table, after those of algorithms. */
export const SHARED_PLACE = algorithmNames.length + 1;

const { shared_window: sharedWindow } = compiled;

/** The steps of the script's table, in its order, with those that they call. */
const steps = [
  ...algorithmNames.map((name) => {
    const { includes = [], script: own } = findRow(name);
    return { luas: [...includes, own].map(({ lua }) => lua), traits: listTraits(name) };
  }),
  {
    luas: [sharedWindow.lua],
    traits: `step = ${sharedWindow.name}, refund = ${sharedWindow.name}_refund, isForeign = true, reserves = false`,
  },
];

/**
 * The script that decides in Redis: the steps of each algorithm, and the dispatcher that calls them. An algorithm's
 * functions are created when a limit of the batch first needs them, and those of requests when a batch has some: Redis
 * runs the whole text in each call.
 */
export const script: Script = createScript([
  'local algorithms = {}',
  'setmetatable(algorithms, { __index = function(_, place)',
  ...steps.flatMap(({ luas, traits }, at) => [
    `if place == ${at + 1} then`,
    ...luas,
    `algorithms[place] = { ${traits} }`,
    'end',
  ]),
  'return rawget(algorithms, place)',
  'end })',
  'local decideRequests',
  compiledScripts.dispatcher,
  'function decideRequests(from)',
  compiledScripts.requests,
  'decide(from)',
  'end',
  'return run()',
]);

/** The scripts that spend on one counter of a rate. */
export const loneScripts = Object.fromEntries(
  rateNames.map((name) => [
    name,
    createScript([
      findRow(name).script.lua,
      `local algorithm = { ${listTraits(name)} }`,
      compiledScripts.lone,
      'return run()',
    ]),
  ]),
) as Readonly<Record<RateName, Script>>; // has every name

/** The script that takes usage out of Redis. */
export const usageScript: Script = createScript([compiledScripts.usage, 'return run()']);

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
