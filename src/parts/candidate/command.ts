import type { Command } from 'commander';
import { counted } from '../../base/texts.ts';
import { command, count, type Reasoned, SHOW, type Surroundings, withReason } from '../../cli/commands/admin.ts';
import { CommandFailed, guarded, printAnswer } from '../../cli/commands/client.ts';
import { type Paint, paintFor } from '../../cli/commands/paint.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type {
  CounterFates,
  RuleProblem,
  Tally,
  TriedCandidate,
  TriedKeys,
  TriedRule,
} from '../../operate/answers/rules.ts';

/** Adds the commands that compare rules, on files and on live traffic. */
export function addCandidateCommands(program: Command, surroundings: Surroundings): void {
  addDiffCommand(program, surroundings);
  addTrialCommand(program, surroundings);
}

function addTrialCommand(program: Command, surroundings: Surroundings): void {
  const candidate = program
    .command('candidate')
    .summary('try rules on live traffic')
    .description(
      'Try rules on live traffic beside the current rules; without a subcommand, show what they would change.',
    );
  const showing = command(candidate, SHOW, 'show what the candidate would change (the default)')
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many keys of each rule', count, 10);
  printAnswer(showing, surroundings, {
    call: (flags: { rule?: string; count: number }) => ({
      operation: 'GET /api/v1/candidate',
      query: { rule: flags.rule, count: flags.count },
    }),
    render: renderCandidate,
  });
  const load = command(candidate, 'load', 'try a rule file, replacing the current candidate').argument(
    '<file>',
    'rule file; - is standard input',
  );
  printAnswer(withReason(load), surroundings, {
    call: async (file: string, { reason }: Reasoned) => ({
      operation: 'POST /api/v1/candidate',
      query: { reason },
      body: { type: 'application/yaml', text: await textAt(file) },
    }),
    render: renderCandidate,
  });
  printAnswer(withReason(command(candidate, 'clear', 'end the trial')), surroundings, {
    call: ({ reason }: Reasoned) => ({ operation: 'DELETE /api/v1/candidate', body: { reason } }),
    render: renderCandidate,
  });
  printAnswer(
    command(candidate, 'diff', 'print what changes if the candidate replaces the current rules'),
    surroundings,
    {
      call: () => ({ operation: 'GET /api/v1/candidate/diff' }),
      render: renderCandidateDiff,
    },
  );
}

/** @throws CommandFailed */
async function textAt(file: string): Promise<string> {
  const { readFile } = await import('node:fs/promises');
  try {
    return await readFile(file === '-' ? '/dev/stdin' : file, 'utf8');
  } catch (error) {
    throw new CommandFailed(error instanceof Error ? error.message : String(error));
  }
}

/** Renders the candidate as text. */
export function renderCandidate(found: TriedCandidate, paint: Paint): string {
  const lines = [headline(found, paint), ...found.problems.map((problem) => problemText(problem, paint))];
  if (found.moreProblems > 0) lines.push(`and ${counted(found.moreProblems, 'more problem')}`);
  if (found.state !== 'on') return lines.join('\n');
  if (found.since === null) return [...lines, 'it is being loaded'].join('\n');
  lines.push(`since ${found.since}: ${tallyText(found.totals)}`, ...gapNotes(found));
  for (const rule of found.rules) {
    lines.push('', `${paint.strong(rule.rule)}${placeText(rule)}  ${tallyText(rule)}`);
    lines.push(...keysText(rule.newlyRefusedKeys, 'newly refused', paint.bad));
    lines.push(...keysText(rule.newlyPassedKeys, 'newly passed', paint.good));
  }
  if (found.moreRules > 0) lines.push('', `and ${counted(found.moreRules, 'more rule')}`);
  return lines.join('\n');
}

function headline({ state, from, by, reason, hash, domains, ruleCount }: TriedCandidate, paint: Paint): string {
  const source = `from ${from ?? 'nowhere'}${by === null ? '' : ` by ${by}: ${reason}`}`;
  switch (state) {
    case 'off':
      return 'no candidate is loaded';
    case 'wrong':
      return paint.bad(`a candidate is not tried, ${source}`);
    default:
      return `${paint.strong(`${counted(ruleCount, 'rule')} of ${domains.join(', ')}`)} ${ruleCount === 1 ? 'is' : 'are'} tried, ${source}  ${paint.dim(`hash ${hash}`)}`;
  }
}

const problemText = ({ severity, file, line, path, message }: RuleProblem, paint: Paint): string => {
  const place = `${file === undefined ? 'line ' : `${file}:`}${line ?? 1}`;
  return `  ${place}: ${paint[severity === 'error' ? 'bad' : 'dim'](severity)}: ${path === '' ? '' : `${path}: `}${message}`;
};

const tallyText = ({ requests, liveRefused, candidateRefused, newlyRefused, newlyPassed }: Tally): string =>
  `${counted(requests, 'request')}, refused ${liveRefused} live, ${candidateRefused} by the candidate: ${newlyRefused} newly refused, ${newlyPassed} newly passed`;

/** Reasons why the figures do not cover all requests. */
function gapNotes({ sample, dropped, failed, withheld, evicted }: TriedCandidate): readonly string[] {
  const notes: readonly (readonly [number, string])[] = [
    [dropped.behind, 'not tried: too many were in flight'],
    [dropped.overload, 'not tried: the service is overloaded'],
    [failed, "not answered by the candidate's counters"],
    [withheld, 'not compared: the candidate has not seen all requests of their counters'],
  ];
  return [
    ...(sample < 1 ? [`of ${sample * 100} % of all counters`] : []),
    ...notes.flatMap(([number, what]) => (number > 0 ? [`${counted(number, 'request')} ${what}`] : [])),
    ...(evicted > 0 ? [`${counted(evicted, 'counter')} of the candidate evicted for lack of memory`] : []),
  ];
}

function placeText({ inLive, inCandidate }: TriedRule): string {
  if (inLive === inCandidate) return '';
  return inLive ? ' (not in the candidate)' : ' (new)';
}

function keysText({ count, isAtLeast, keys }: TriedKeys, what: string, colour: (text: string) => string): string[] {
  if (count === 0) return [];
  const width = Math.max(...keys.map(({ hits }) => String(hits).length), 0);
  return [
    `  ${colour(what)}: ${isAtLeast ? 'at least ' : ''}${counted(count, 'key')}`,
    ...keys.map(({ descriptor, hits, atMostTooHighBy }) => {
      const bound = atMostTooHighBy > 0 ? `  at most ${atMostTooHighBy} too high` : '';
      return `    ${String(hits).padStart(width)}  ${descriptor}${bound}`;
    }),
  ];
}

/** Renders the effect of applying the candidate as text, and how to do it. */
export function renderCandidateDiff(
  { added, removed, changed }: Answers['GET /api/v1/candidate/diff'],
  paint: Paint,
): string {
  const fates = (counters: CounterFates): string =>
    counters
      .map(({ limit, counters: fate }) => `${limit} (${fate === 'kept' ? 'counters are kept' : 'counters start anew'})`)
      .join(', ');
  return [
    ...added.map(({ rule, counters }) => `${paint.good(`+ ${rule.path}`)}: ${fates(counters)}`),
    ...removed.map(
      ({ rule, after }) =>
        `${paint.bad(`- ${rule.path}`)}: its descriptors then match ${after === undefined ? 'no rule' : after}`,
    ),
    ...changed.map(({ after, counters }) => `${paint.strong(`~ ${after.path}`)}: ${fates(counters)}`),
    `${added.length} added, ${removed.length} removed, ${changed.length} changed`,
    'to apply it, replace the rules at their source (RULES_PATH, or the control plane), then run weir candidate clear',
  ].join('\n');
}

/** Adds the command that compares rules. */
function addDiffCommand(program: Command, { print, fail, isTerminal, env }: Surroundings): void {
  program
    .command('diff')
    .summary('compare rule files')
    .description(
      'Print what changes if new rules replace old ones: rules added, removed and changed; counters kept or restarted.',
    )
    .argument('<old>', 'rule file or directory')
    .argument('<new>', 'rule file or directory')
    .option('--json', 'print it as JSON', false)
    .option('--exit-code', 'exit with 1 if anything differs', false)
    .action(
      guarded(fail, async (before: string, after: string, { json, exitCode }: Record<'json' | 'exitCode', boolean>) => {
        const [
          { countDifferences, diffJson, diffRules },
          { diffText },
          { loadRulesAt, loadSettings },
          { printableJson },
        ] = await Promise.all([
          import('./diff/diff.ts'),
          import('./render-diff.ts'),
          import('../../cli/commands/load-rules.ts'),
          import('../../base/printable.ts'),
        ]);
        const settings = await loadSettings(env);
        const diff = diffRules(await loadRulesAt(before, [], settings), await loadRulesAt(after, [], settings));
        print(json ? printableJson(diffJson(diff)) : diffText(diff, paintFor(isTerminal, env.NO_COLOR)));
        const count = countDifferences(diff);
        if (exitCode && count > 0) throw new CommandFailed(`${count} differences`);
      }),
    );
}
