import { createHash } from 'node:crypto';
import { type RateName, rateNames } from '../../engine/algorithms/index.ts';
import { type AlgorithmName, algorithmNames, findRow } from '../../engine/holds/limits.ts';
import { compiled } from '../../engine/lua/compiled.ts';
import { compiledScripts } from './compiled-scripts.ts';

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
