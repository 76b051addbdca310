import { present } from '../../base/group.ts';
import { counted } from '../../base/texts.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { Paint } from '../lab/commands/paint.ts';
import type { CounterFates, RuleProblem, Tally, TriedCandidate, TriedKeys, TriedRule } from './answers.ts';

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
  if (state === 'off') return 'no candidate is loaded';
  const source = `from ${from ?? 'nowhere'}${by === null ? '' : ` by ${by}: ${reason}`}`;
  if (state === 'wrong') return paint.bad(`a candidate is not tried, ${source}`);
  return `${paint.strong(`${counted(ruleCount, 'rule')} of ${domains.join(', ')}`)} ${ruleCount === 1 ? 'is' : 'are'} tried, ${source}  ${paint.dim(`hash ${hash}`)}`;
}

const problemText = ({ severity, file, line, path, message }: RuleProblem, paint: Paint): string => {
  const place = `${file === undefined ? 'line ' : `${file}:`}${line ?? 1}`;
  return `  ${place}: ${paint[severity === 'error' ? 'bad' : 'dim'](severity)}: ${path === '' ? '' : `${path}: `}${message}`;
};

const tallyText = ({ requests, liveRefused, candidateRefused, newlyRefused, newlyPassed }: Tally): string =>
  `${counted(requests, 'request')}, refused ${liveRefused} live, ${candidateRefused} by the candidate: ${newlyRefused} newly refused, ${newlyPassed} newly passed`;

/** Reasons why the figures do not cover all requests. */
function gapNotes({ sample, dropped, failed, withheld, evicted }: TriedCandidate): readonly string[] {
  const requests = (number: number, what: string) => number > 0 && `${counted(number, 'request')} ${what}`;
  return present([
    sample < 1 && `of ${sample * 100} % of all counters`,
    requests(dropped.behind, 'not tried: too many were in flight'),
    requests(dropped.overload, 'not tried: the service is overloaded'),
    requests(failed, "not answered by the candidate's counters"),
    requests(withheld, 'not compared: the candidate has not seen all requests of their counters'),
    evicted > 0 && `${counted(evicted, 'counter')} of the candidate evicted for lack of memory`,
  ]);
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
  ].join('\n');
}
