import { readFileSync } from 'node:fs';
import { wrapped } from '../../docs/wrap.ts';
import { NEVER_MS } from '../../src/engine/algorithms/limit.ts';
import { createEngine, type Engine } from '../../src/engine/create-engine.ts';
import { Random } from '../../src/parts/simulate/random.ts';
import { START_MS } from '../../src/parts/simulate/simulate.ts';
import { type Answered, type Call, type Limiter, limiters } from './limiters.ts';

const SEED = 20_261_127;

/** The text of a limiter's rule file. */
const ruleFile = ({ file }: Pick<Limiter, 'file'>): string =>
  readFileSync(new URL(`../../config/famous/${file}.yaml`, import.meta.url), 'utf8');

/** Decides the trace of a limiter with its rule file, by nodes that count in memory. */
async function play(limiter: Limiter): Promise<readonly Answered[]> {
  const text = ruleFile(limiter);
  const domain = /^domain: (\S+)$/m.exec(text)?.[1] ?? '';
  const nodes = new Map<number, Engine>();
  let nowMs = START_MS;
  const answers: Answered[] = [];
  try {
    for (const call of limiter.calls(new Random(SEED))) {
      nowMs = START_MS + call.atMs;
      const { node: at = 0 } = call;
      const node = nodes.get(at) ?? (await createEngine({ rules: { text }, clock: () => nowMs }));
      nodes.set(at, node);
      const { overallCode, retryAfterMs = NEVER_MS } = await node.decide({
        domain,
        descriptors: readDescriptors(call),
      });
      const passed = overallCode === 'OK';
      answers.push({ ...call, passed, retryAfterMs: retryAfterMs === NEVER_MS ? undefined : retryAfterMs });
    }
  } finally {
    for (const node of nodes.values()) await node.close();
  }
  return answers;
}

const readDescriptors = ({ descriptors, hits = 1 }: Call) =>
  descriptors.split(' ').map((descriptor) => ({
    hits,
    entries: descriptor.split(',').map((entry) => {
      const [key = '', value = ''] = entry.split('=');
      return { key, value };
    }),
  }));

/** The page docs/famous-limiters.md. */
export async function famousPage(): Promise<string> {
  const sections: string[] = [];
  for (const limiter of limiters) {
    const answers = await play(limiter);
    const rules = ruleFile(limiter).replace(/^(?:#.*\n)+/, '');
    sections.push(
      `## ${limiter.name}\n\n${limiter.about}\n\n\`\`\`yaml\n${rules}\`\`\`\n\n${limiter.trace} **${limiter.outcome(answers)}**`,
    );
  }
  return wrapped(`# Famous limiters

Limits that well-known services have published, as rule files, each with what it admits of a seeded trace. The files are
in \`config/famous\`; \`npm run proof -- famous\` decides the traces and writes the same bytes again.

${sections.join('\n\n')}
`);
}
