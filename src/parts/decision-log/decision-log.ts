import type { Monotonic } from '../../base/clock.ts';
import { NearestTexts } from '../../base/nearest.ts';
import { printable } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';
import { describeRulePlace } from '../../edge/listing/describe.ts';
import { decodeRequest } from '../../edge/wire/codec.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { showMoney } from '../../engine/algorithms/money.ts';
import type { Counters } from '../../engine/backends/key.ts';
import type { Answer, Limited, RateLimitRequest, RequestDescriptor, Verdict } from '../../engine/decide/decide.ts';
import { describeApplied } from '../../engine/decide/overrides.ts';
import { shownRemaining } from '../../engine/decide/shown.ts';
import { spareTexts, untoldFacts, wouldRefuse } from '../../engine/decide/would-refuse.ts';
import { type Entry, stopReasons } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { passesInMs } from '../../operate/admin/shown.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { explain } from '../lab/stop.ts';

/** The answers that are logged: those that refuse, all, or a random fraction. */
type LoggedDecisions = 'off' | 'refused' | 'all' | number;

/** Logs an answer after it has been sent. */
type LogDecision = (request: WireRequest, answer: Answer) => void;

interface DecisionLogOptions {
  readonly rules: () => RuleTree | undefined;
  readonly counters: Counters;
  /** Turns a value that a caller sent into the text to log; undefined: it is logged unchanged. */
  readonly shownValue?: ((value: string) => string) | undefined;
  /** The readable log, with one line per descriptor; undefined if not enabled. */
  readonly debug: Pick<Logger, 'debug'> | undefined;
  readonly decisions: LoggedDecisions;
  /** Takes decisions regardless of the level of other lines. */
  readonly log: DecisionSink;
  readonly maxPerSecond: number;
  /** Called with the number of decisions that were not logged, since there were too many. */
  readonly onDropped: (decisions: number) => void;
  readonly monotonicMs: Monotonic;
  readonly random: () => number;
}

type DecisionSink = (decision: object) => void;

/** Returns undefined if nothing is to be logged, so that callers need not call it. */
export function createDecisionLog(options: DecisionLogOptions): LogDecision | undefined {
  const { decisions, debug } = options;
  const record = decisions === 'off' ? undefined : createRecorder(options, decisions);
  if (!debug) return record;
  return (request, answer) => {
    for (const line of writeLines(request, answer, ofOneRequest(options))) debug.debug(line);
    record?.(request, answer);
  };
}

function createRecorder(options: DecisionLogOptions, decisions: Exclude<LoggedDecisions, 'off'>): LogDecision {
  const { log, maxPerSecond, onDropped, monotonicMs, random } = options;
  let second = 0;
  let logged = 0;
  return (request, answer) => {
    if (decisions === 'refused' ? answer.overallCode === 'OK' : decisions !== 'all' && random() >= decisions) return;
    const now = Math.floor(monotonicMs() / 1_000);
    if (now !== second) logged = 0;
    second = now;
    if (++logged > maxPerSecond) return onDropped(1);
    log(createRecord(request, answer, ofOneRequest(options)));
  };
}

/** The most texts compared for one request: callers choose how many descriptors match no rule. */
const LOGGED_COMPARISONS = 500;

interface RequestLogOptions extends DecisionLogOptions {
  readonly nearest: NearestTexts;
}

const ofOneRequest = (options: DecisionLogOptions): RequestLogOptions => ({
  ...options,
  nearest: new NearestTexts(LOGGED_COMPARISONS),
});

/** The request with the descriptors that were counted. */
const decodeCounted = (wire: WireRequest, { unmet }: Answer): RateLimitRequest => {
  const request = decodeRequest(wire);
  return unmet ? { ...request, descriptors: unmet.descriptors } : request;
};

/** The log record of one answer. */
function createRecord(wire: WireRequest, answer: Answer, options: RequestLogOptions): object {
  const { domain, descriptors } = decodeCounted(wire, answer);
  return {
    domain,
    code: answer.overallCode,
    ...(answer.delayMs > 0 && { delay_ms: answer.delayMs }),
    ...(answer.retryAfterMs !== undefined && { retry_after_ms: passesInMs(answer.retryAfterMs) }),
    ...untoldFacts(answer),
    descriptors: answer.verdicts.map((verdict, at) => {
      const descriptor = descriptors[at];
      if (!descriptor) return {};
      const entries = shownEntries(descriptor.entries, options).map(({ key, value }) => `${key}=${value}`);
      const described = { entries, hits: descriptor.hits };
      if (!('rule' in verdict)) return { ...described, none: explainUnlimited(domain, descriptor, options) };
      const { path: rule, place } = verdict.rule;
      const found = { ...described, rule, ...(place && { file: place.file, line: place.line }) };
      if (verdict.kind !== 'limited') return { ...found, unlimited: true };
      const { decision, code } = verdict;
      const { fromCache, fromLease, degraded } = decision;
      return {
        ...found,
        key: shownKey(domain, verdict, options),
        limit: describeApplied(verdict),
        code,
        remaining: leftOf(verdict),
        ...(decision.soft && { soft: true }),
        ...(fromCache && { from_cache: true }),
        ...(fromLease && { from_lease: true }),
        ...(degraded && { degraded }),
      };
    }),
  };
}

/** Uses the words of envoyproxy/ratelimit where it has some, so that a search for them succeeds. */
function writeLines(wire: WireRequest, answer: Answer, options: RequestLogOptions): readonly string[] {
  const { domain, descriptors } = decodeCounted(wire, answer);
  const spared = wouldRefuse(answer);
  return answer.verdicts.map((verdict, at) => {
    const descriptor = descriptors[at];
    if (!descriptor) return '';
    const tried = spared
      .filter((one) => one.descriptor === at)
      .map((one) => `; ${describeApplied(one)} would refuse, but for ${spareTexts[one.reason]}`);
    const entries = shownEntries(descriptor.entries, options)
      .map(({ key, value }) => `(${key}=${value})`)
      .join(',');
    const got = `got descriptor: ${entries} of domain '${domain}'`;
    return printable(`${got}: ${describeVerdict(domain, descriptor, verdict, options)}${tried.join('')}`);
  });
}

/** The remaining hits, as answers show them; of a budget an amount. */
const leftOf = (verdict: Limited): number | string => {
  const { currency } = verdict.limit;
  const left = shownRemaining(verdict);
  return currency === undefined ? left : showMoney(left, currency);
};

function describeVerdict(
  domain: string,
  descriptor: RequestDescriptor,
  verdict: Verdict,
  options: RequestLogOptions,
): string {
  if (verdict.kind === 'unlimited')
    return `descriptor is ${verdict.exempt ? 'exempt by an override from' : 'unlimited by'} rule ${describeRulePlace(verdict.rule)}`;
  if (verdict.kind !== 'limited') {
    const reason = explainUnlimited(domain, descriptor, options);
    return `descriptor does not match any limit, no limits applied: ${reason}`;
  }
  const { rule, code } = verdict;
  const key = shownKey(domain, verdict, options);
  const what = `applying limit: ${describeApplied(verdict)}, rule ${describeRulePlace(rule)}, key ${key}`;
  return `${what}: ${code}, ${counted(descriptor.hits, 'hit')}, ${leftOf(verdict)} remaining`;
}

const shownEntries = (entries: readonly Entry[], { shownValue }: DecisionLogOptions): readonly Entry[] =>
  shownValue ? entries.map(({ key, value }) => ({ key, value: shownValue(value) })) : entries;

/** Why no limit applies. */
function explainUnlimited(
  domain: string,
  descriptor: RequestDescriptor,
  { rules, shownValue, nearest }: RequestLogOptions,
): string {
  const tree = rules();
  if (!tree) return 'the rules have changed';
  const { rule, reason, text } = explain(tree, domain, descriptor, { nearest });
  if (shownValue && reason) return stopReasons[reason];
  return `${text}${rule ? ', which another rule of the request replaces' : ''}`;
}

/** The counter's key, with values as logged. */
const shownKey = (domain: string, { limit, found }: Limited, options: DecisionLogOptions): string =>
  options.counters(limit, domain, shownEntries(found.entries, options)).key;
