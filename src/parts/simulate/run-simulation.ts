import { open } from 'node:fs/promises';
import type { Surroundings } from '../../cli/surroundings.ts';
import { orFail } from '../replay/input.ts';
import { parseMapping } from '../replay/mapping/mapping.ts';
import type { RecordedRequest, RecordedTraffic } from '../replay/request.ts';
import { type AnswerFlags, answerTraffic, mappingAt } from '../replay/run-replay.ts';
import type { ScenarioName } from './scenario-names.ts';
import { SIMULATED_MAPPING, SIMULATED_RULES, simulated } from './simulate.ts';

/** Options of `weir simulate`. */
export interface SimulateFlags extends Pick<AnswerFlags, 'against' | 'mapping' | 'json' | 'html'> {
  readonly scenario: ScenarioName;
  readonly rules?: string;
  readonly seed: number;
  readonly out?: string;
}

/** @throws CommandFailed if rules, mapping or settings are invalid, or a file cannot be written */
export async function runSimulation(flags: SimulateFlags, surroundings: Surroundings): Promise<void> {
  const { scenario, seed, out } = flags;
  const mapping = flags.mapping === undefined ? ownMapping() : await mappingAt(flags.mapping);
  const made = simulated(scenario, seed, mapping);
  const traffic = out === undefined ? made : written(made, out);
  const { rules = 'the rules of scenarios', ...more } = flags;
  const own = flags.rules === undefined && { rulesText: SIMULATED_RULES };
  await answerTraffic(
    { ...more, rules, ...own, overlay: [], answers: false, verify: false },
    surroundings,
    async () => ({ traffic, names: [`scenario ${scenario}, seed ${seed}`], totalBytes: undefined }),
  );
}

function ownMapping() {
  const parsed = parseMapping('the mapping of scenarios', SIMULATED_MAPPING);
  if ('mapping' in parsed) return parsed.mapping;
  throw new Error(parsed.problems.map(({ message }) => message).join('; '));
}

/** Passes the traffic on, and writes it to a file. */
async function* written(traffic: RecordedTraffic, path: string): RecordedTraffic {
  const file = await orFail(path, () => open(path, 'w'));
  try {
    for await (const batch of traffic) {
      await file.write(batch.map(recordingLine).join(''));
      yield batch;
    }
  } finally {
    await file.close();
  }
}

/** A line of a recording, the body of `/json` with `time` and `label`. */
function recordingLine({ timeMs, request: { domain, descriptors }, label }: RecordedRequest): string {
  const sent = descriptors.map(({ entries, hits }) => ({ entries, ...(hits !== 1 && { hits_addend: hits }) }));
  return `${JSON.stringify({ time: timeMs, domain, descriptors: sent, ...(label && { label }) })}\n`;
}
