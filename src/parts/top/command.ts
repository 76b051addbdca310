import { type Command, Option } from 'commander';
import { counted } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { command, count } from '../lab/commands/admin.ts';
import { printAnswer } from '../lab/commands/client.ts';
import type { Paint } from '../lab/commands/paint.ts';
import { boundsText, estimateNote } from '../lab/sketches/texts.ts';

/** Adds the command that lists the busiest descriptors. */
export function addTopCommand(program: Command, surroundings: Surroundings): void {
  const top = command(program, 'top', 'list the busiest descriptors of each rule')
    .addOption(new Option('--by <what>', 'what to count').choices(['hits', 'refusals', 'shadowed']).default('hits'))
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many of each rule', count, 10)
    .option('--follow', 'print it again every two seconds', false);
  printAnswer(top, surroundings, {
    call: ({ by, rule, count }: { by: string; rule?: string; count: number }) => ({
      operation: 'GET /api/v1/top',
      query: { by, rule, count },
    }),
    render: renderTop,
  });
}

export function renderTop({ by, rules }: Answers['GET /api/v1/top'], paint: Paint): string {
  if (rules.length === 0) return `no hits${topTexts[by]} in the last minute`;
  return rules
    .map(({ rule, total, keys, ...sampled }) => {
      const width = Math.max(...keys.map(({ hits }) => String(hits).length), 0);
      const rows = keys.map(({ descriptor, hits, atMostTooHighBy, atMostTooLowBy }) => {
        const bounds = boundsText(paint, atMostTooHighBy, atMostTooLowBy);
        return `  ${String(hits).padStart(width)}  ${descriptor}${bounds}`;
      });
      const note = estimateNote(sampled);
      return [`${paint.strong(rule)}  ${counted(total, 'hit')}${topTexts[by]} in the last minute${note}`, ...rows].join(
        '\n',
      );
    })
    .join('\n\n');
}

/** What happened to the hits of a list. */
const topTexts = {
  hits: '',
  refusals: ' refused',
  refused_requests: ' refused',
  shadowed: ' let pass by shadow or quota mode',
} as const;
