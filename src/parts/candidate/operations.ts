import { basename, relative } from 'node:path';
import { every } from '../../base/clock.ts';
import { fields } from '../../base/shape.ts';
import { rfc3339 } from '../../base/times.ts';
import { memoryRecords } from '../../engine/backends/records.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import { listRules, type RuleTree } from '../../engine/rules/match/tree.ts';
import type { Problem } from '../../engine/rules/read/problem.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import { onlyRule, pageSize, reason, text } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { Background } from '../../operate/observe/work-state.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import { paintFor } from '../lab/commands/paint.ts';
import { describeTop } from '../lab/sketches/rule-top.ts';
import type { TriedCandidate, TriedKeys, TriedRule } from './answers.ts';
import type { BookFacts, CandidateBook } from './book.ts';
import { countDifferences, diffJson, diffRules } from './diff/diff.ts';
import type { CandidateQuestion } from './open.ts';
import { CANDIDATE_INTERVAL_MS, CandidateRecords } from './records.ts';
import { renderCandidate, renderCandidateDiff } from './render-candidate.ts';
import { type ChangedKeys, mergeReports, noTally, type RuleTrial, type TrialReport } from './report.ts';
import { carryOver, unifiedDiff } from './rule-patch.ts';
import {
  type CandidateOptions,
  decodeText,
  readRuleFiles,
  ruleTextOperations,
  shownProblems,
} from './rule-text-operations.ts';

const MAX_KEYS = 100;
const DEFAULT_KEYS = 10;
/** The most rules compared, of both sides together: more would delay other pages for too long. */
const MAX_COMPARED_RULES = 1_000;
/** The most errors of an invalid candidate in the answer. */
const MAX_SHOWN_ERRORS = 200;

/** Until then the processes that answer requests may still start. */
const START_MS = 10_000;

/** Operations on rules that are tried on live traffic. */
export const candidateOperations = ((admin, settings, { records, background }) => {
  const candidate = admin.sourced.candidate as CandidateBook; // which this part has opened
  const options: CandidateOptions = { ...admin, candidate };
  const isShared = settings.rules.candidate.path === undefined && settings.counters.store.kind !== 'memcache'; // which keeps no records
  const sent = new CandidateRecords(isShared ? records : memoryRecords(), candidate);
  return {
    operations: [...viewOperations(options), ...changeOperations(options, sent), ...ruleTextOperations(options)],
    facts: async () => ({
      candidate: { isOn: candidate.facts.state === 'on', report: await collectReport(options, 0) },
    }),
    ...(isShared && { close: follow(sent, background) }),
  };
}) satisfies OpenOperatorPart;

/** Instances on one store follow the same candidate, except those with files for it. @returns a function that ends it */
function follow(sent: CandidateRecords, background: Background): () => void {
  const state = background.add('candidate', 'reading the candidate', START_MS); // while it fails, the last one stays
  return every(CANDIDATE_INTERVAL_MS, () => void state.run(() => sent.follow()));
}

function viewOperations(options: CandidateOptions): readonly ApiOperation[] {
  const { candidate } = options;
  return [
    operation('GET /api/v1/candidate', {
      summary: 'the candidate: whether it is tried, its problems, and what it would change by rule and key',
      need: 'read',
      domains: 'selected',
      query: fields({}, { rule: onlyRule, count: pageSize(MAX_KEYS) }),
      answers:
        'State, figures since `since`, and the rules with the most changes first. `newlyRefused` counts requests that the live rules pass.',
      answer: ({ query, scope }) => {
        requireTried(options, scope);
        return shown(options, query.count, query.rule);
      },
    }),
    operation('GET /api/v1/candidate/text', {
      summary: 'the text of the last candidate that was sent',
      need: 'read',
      domains: 'selected',
      answers: '`text`.',
      answer: ({ scope }) => {
        requireTried(options, scope);
        const { posted } = candidate.facts;
        if (!posted) throw new ApiProblem(404, 'no candidate was sent through the admin API');
        return { text: posted.text };
      },
    }),
    operation('GET /api/v1/candidate/diff', {
      summary: 'the effect of putting the candidate in force, as weir diff prints it',
      need: 'read',
      domains: 'selected',
      answers: 'Rules added, removed and changed in the domains of the candidate; whether counters are kept.',
      answer: async ({ scope }) => {
        requireTried(options, scope);
        return compared(options);
      },
    }),
    operation('GET /api/v1/candidate/patch', {
      summary: 'the candidate as a patch of the rule file in force, with what was tried in its message',
      need: 'read',
      domains: 'selected',
      query: fields({}, { path: { ...text, description: 'of the rule file in the patch' } }),
      answers:
        '`patch` for `git am --keep-cr`; `before` and `after`, the texts of `file`; and `message`. Comments and order of the file are kept if the candidate changes only single values; else `after` is its text.',
      answer: async ({ client, scope, query }) => {
        requireTried(options, scope);
        return patchOf(options, client.name, query.path);
      },
    }),
  ];
}

/** @throws ApiProblem  404, 409: there is no candidate, no request has been tried, or the file is not in force */
async function patchOf(
  options: CandidateOptions,
  who: string,
  path: string | undefined,
): Promise<Answers['GET /api/v1/candidate/patch']> {
  const { posted, domains } = options.candidate.facts;
  const [domain, ...others] = domains;
  if (!posted || domain === undefined) throw new ApiProblem(404, 'no candidate was sent through the admin API');
  const tried = await shown(options, 0);
  if (tried.totals.requests === 0) throw new ApiProblem(409, 'the candidate has not been tried on any request yet');
  const [file, more] = (await readRuleFiles(options, domain)).files;
  if (!file || more || others.length > 0)
    throw new ApiProblem(409, `the rules of domain '${domain}' are in several files: use weir diff`);
  const effect = renderCandidateDiff(compared(options), paintFor(false, undefined));
  if (!isInForce(options, domain, file.text))
    throw new ApiProblem(409, `${basename(file.name)} differs from the rules in force: reload it or undo its change`);
  const after = carryOver(file.text, posted.text);
  if (after === file.text) throw new ApiProblem(409, `the candidate changes nothing in ${basename(file.name)}`);
  const { origin } = options.settings.rules;
  const below = 'path' in origin ? relative(String(origin.path), file.name) : '';
  const name = path ?? (below === '' ? basename(file.name) : below);
  const evidence = renderCandidate(tried, paintFor(false, undefined));
  const tells = `${evidence}\n\n${effect}`.replaceAll(/^(?=.)/gm, '  '); // so that git takes no line for a header or a patch
  const message = `Change limits of ${oneLine(domain)}, as tried on live traffic\n\nReason: ${oneLine(posted.reason)}\n\n${tells}\n`;
  const head = `From: ${who.replace(/[<>]/g, '')} <${/^\S+@\S+$/.test(who) ? who : 'weir@localhost'}>\nSubject: [PATCH] `;
  const patch = `${head}${message}---\n${unifiedDiff(name, file.text, after)}`;
  return { file: file.name, before: file.text, after, message, patch };
}

const oneLine = (text: string): string => text.replaceAll(/[\s\p{C}]+/gu, ' ').trim();

function changeOperations(options: CandidateOptions, sent: CandidateRecords): readonly ApiOperation[] {
  const { audit, candidate } = options;
  return [
    operation('POST /api/v1/candidate', {
      summary: 'tries a rule file on live traffic, and replaces the previous candidate',
      need: 'operate',
      domains: 'selected',
      query: fields({ reason }),
      body: 'any',
      consumes: 'application/yaml',
      answers: 'The same as GET. An invalid file is refused with 400 and its `errors`, and nothing changes.',
      answer: async ({ client, scope, query, rawBody }) => {
        requireTried(options, scope);
        const posted = { text: decodeText(rawBody), by: client.name, reason: query.reason };
        const found = candidate.check(posted.text);
        if (!found.ok) throw invalidCandidate(found.problems);
        const domains = found.packed.map(({ name }) => name);
        for (const domain of domains) scope.require({ domain });
        const after = { domains, rules: found.ruleCount ?? 0, hash: hashRules(found.packed) };
        await audit.change(auditedChange(candidate.facts, posted, after), () => sent.put(posted));
        return shown(options);
      },
    }),
    operation('DELETE /api/v1/candidate', {
      summary: 'ends the trial, until another candidate is sent or files at CANDIDATE_RULES_PATH change',
      need: 'operate',
      domains: 'selected',
      body: fields({ reason }),
      answers: 'The same as GET.',
      answer: async ({ client: { name: by }, scope, body: { reason } }) => {
        requireTried(options, scope);
        await audit.change(auditedChange(candidate.facts, { by, reason }, null), () => sent.put(undefined));
        return shown(options);
      },
    }),
  ];
}

/**
 * Refuses a client if the candidate has rules of a domain that it may not see, without naming it.
 *
 * @throws ApiProblem  403
 */
function requireTried({ candidate: { facts } }: CandidateOptions, scope: Scope): void {
  if (facts.state === 'wrong') return scope.requireAll(); // its domains are not known
  if (!facts.domains.every((domain) => scope.hasDomain(domain))) throw new ApiProblem(403, OTHERS_CANDIDATE);
}

const OTHERS_CANDIDATE =
  'the service tries one candidate at a time, and the present one has rules of domains that are not of this token: ask those who operate them to end its trial';

function invalidCandidate(problems: readonly Problem[]): ApiProblem {
  const errors = problems.filter(({ severity }) => severity === 'error').slice(0, MAX_SHOWN_ERRORS);
  const flaws = errors.map(({ line = 1, path, message }) => ({
    at: `line ${line}`,
    detail: path === '' ? message : `${path}: ${message}`,
  }));
  const [first] = flaws;
  const detail = `the candidate is invalid, and nothing has changed: ${first?.at}: ${first?.detail}`;
  return new ApiProblem(400, detail, { flaws });
}

/** A change for the audit log. @param after  null: the trial ends */
const auditedChange = (
  { state, hash, domains }: BookFacts,
  { by, reason: why }: { readonly by: string; readonly reason: string },
  after: object | null,
) => ({
  who: by,
  change: 'candidate',
  reason: why,
  what: after ?? { hash, domains },
  before: { state, ...(hash && { hash }) },
  after,
});

/** The merged reports of all processes on the current candidate. */
async function collectReport(
  { ask, candidate }: CandidateOptions,
  keys: number,
  rule?: string,
): Promise<TrialReport | undefined> {
  const { hash } = candidate.facts;
  if (hash === undefined) return undefined;
  const question: CandidateQuestion = { keys, rule };
  const reports = await askPart<TrialReport>({ ask }, 'candidate', question);
  return mergeReports(reports.filter((report) => report.hash === hash)); // a process may still try the previous one
}

function compared({ candidate, rules, settings }: CandidateOptions): Answers['GET /api/v1/candidate/diff'] {
  const packed = candidate.packed();
  if (!packed) throw new ApiProblem(404, 'no candidate is tried');
  const { domains, ruleCount } = candidate.facts;
  const before = selectDomains(rules(), domains);
  if (before.rules.length + ruleCount > MAX_COMPARED_RULES)
    throw new ApiProblem(413, `at most ${MAX_COMPARED_RULES} rules can be compared here: use weir diff`);
  return diffJson(diffRules(before, new RulesInForce(settings.counters.split).replaceAtOnce(packed)));
}

/** Whether the rules of a domain in force are those of this text, which may have been read later. */
function isInForce({ candidate, rules, settings }: CandidateOptions, domain: string, text: string): boolean {
  const found = candidate.check(text);
  const current = selectDomains(rules(), [domain]);
  if (!found.ok || found.ruleCount !== current.rules.length) return false;
  const written = new RulesInForce(settings.counters.split).replaceAtOnce(found.packed);
  return countDifferences(diffRules(current, written)) === 0;
}

/** The rules of these domains. */
function selectDomains(tree: RuleTree | undefined, names: readonly string[]): RuleTree {
  const domains = new Map([...(tree?.domains ?? [])].filter(([name]) => names.includes(name)));
  return { domains, rules: listRules(domains) };
}

/** The figures before any process tries the candidate. */
const noFigures: Omit<TrialReport, 'sinceMs' | 'hash'> = {
  ...{ ruleCount: 0, inFlight: 0, inFlightBytes: 0, dropped: { behind: 0, overload: 0 } },
  ...{ failed: 0, withheld: 0, evicted: 0, totals: noTally, rules: [], moreRules: 0 },
};

const MAX_SHOWN_RULES = 500;

/** The candidate as the API shows it. @param keys  the number of keys of each rule */
async function shown(options: CandidateOptions, keys = DEFAULT_KEYS, rule?: string): Promise<TriedCandidate> {
  const report = await collectReport(options, keys, rule); // undefined: no process tries it yet
  const { candidate, settings, hash } = options;
  const { state, origin, posted, loadedAtMs, domains, ruleCount, problems, hash: ofRules } = candidate.facts;
  const { inFlight, inFlightBytes, dropped, failed, withheld, evicted, totals, rules, moreRules } = report ?? noFigures;
  return {
    state,
    origin: origin ?? null,
    from: origin === 'file' ? (settings.rules.candidate.path ?? null) : origin === 'api' ? 'the admin API' : null,
    by: posted?.by ?? null,
    reason: posted?.reason ?? null,
    loadedAt: loadedAtMs === undefined ? null : rfc3339(loadedAtMs),
    hash: ofRules ?? null,
    domains,
    ruleCount,
    ...shownProblems(problems),
    sample: settings.candidate.sample,
    since: report ? rfc3339(report.sinceMs) : null,
    inFlight,
    inFlightBytes,
    maxInFlight: settings.candidate.maxInFlight * settings.workers,
    dropped,
    failed,
    withheld,
    evicted,
    totals,
    rules: rules.slice(0, MAX_SHOWN_RULES).map((one) => showRule(one, keys, hash)),
    moreRules: moreRules + Math.max(rules.length - MAX_SHOWN_RULES, 0),
  };
}

function showRule(trial: RuleTrial, most: number, hash: CandidateOptions['hash']): TriedRule {
  const shown = ({ list, count, isAtLeast }: ChangedKeys): TriedKeys => {
    const top = { rule: trial.rule, by: 'refusals', list, countedOneIn: 1 } as const;
    const { unlistedAtMost, keys } = describeTop(top, most, hash);
    return { count, isAtLeast, unlistedAtMost, keys };
  };
  const { newlyRefusedKeys, newlyPassedKeys } = trial;
  return { ...trial, newlyRefusedKeys: shown(newlyRefusedKeys), newlyPassedKeys: shown(newlyPassedKeys) };
}
