import { every } from '../../base/clock.ts';
import { fields } from '../../base/shape.ts';
import { memoryRecords } from '../../engine/backends/records.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import { listRules, type RuleTree } from '../../engine/rules/match/tree.ts';
import type { Problem } from '../../engine/rules/read/problem.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { onlyRule, pageSize, reason } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { decodeText } from '../../operate/admin/rule-text-operations.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { TriedCandidate } from '../../operate/answers/rules.ts';
import type { CandidateFacts } from '../../operate/candidate/book.ts';
import type { Background } from '../../operate/observe/work-state.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import { diffJson, diffRules } from './diff/diff.ts';
import type { CandidateQuestion } from './open.ts';
import { CANDIDATE_INTERVAL_MS, CandidateRecords } from './records.ts';
import { mergeReports, type TrialReport } from './report.ts';
import { showCandidate } from './view.ts';

const MAX_KEYS = 100;
const DEFAULT_KEYS = 10;
/** The most rules compared, of both sides together: more would delay other pages for too long. */
const MAX_COMPARED_RULES = 1_000;
/** The most errors of an invalid candidate in the answer. */
const MAX_SHOWN_ERRORS = 200;

/** Until then the processes that answer requests may still start. */
const START_MS = 10_000;

/** Operations on rules that are tried on live traffic. */
export const candidateOperations = ((options, settings, { records, background }) => {
  const { candidate } = options;
  const isShared = settings.rules.candidate.path === undefined && settings.counters.store.kind !== 'memcache'; // which keeps no records
  const sent = new CandidateRecords(isShared ? records : memoryRecords(), candidate);
  return {
    operations: [...viewOperations(options), ...changeOperations(options, sent)],
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

function viewOperations(options: AdminOptions): readonly ApiOperation[] {
  const { candidate } = options;
  return [
    operation('GET /api/v1/candidate', {
      summary: 'the candidate: whether it is tried, its problems, and what it would change by rule and key',
      need: 'read',
      query: fields({}, { rule: onlyRule, count: pageSize(MAX_KEYS) }),
      answers:
        'State, figures since `since`, and the rules with the most changes first. `newlyRefused` counts requests that the live rules pass.',
      answer: ({ query }) => shown(options, query.count, query.rule),
    }),
    operation('GET /api/v1/candidate/text', {
      summary: 'the text of the last candidate that was sent',
      need: 'read',
      answers: '`text`.',
      answer: () => {
        const { posted } = candidate.facts;
        if (!posted) throw new ApiProblem(404, 'no candidate was sent through the admin API');
        return { text: posted.text };
      },
    }),
    operation('GET /api/v1/candidate/diff', {
      summary: 'the effect of putting the candidate in force, as weir diff prints it',
      need: 'read',
      answers: 'Rules added, removed and changed in the domains of the candidate; whether counters are kept.',
      answer: async () => compared(options),
    }),
  ];
}

function changeOperations(options: AdminOptions, sent: CandidateRecords): readonly ApiOperation[] {
  const { audit, candidate } = options;
  return [
    operation('POST /api/v1/candidate', {
      summary: 'tries a rule file on live traffic, and replaces the previous candidate',
      need: 'operate',
      query: fields({ reason }),
      body: 'any',
      consumes: 'application/yaml',
      answers: 'The same as GET. An invalid file is refused with 400 and its `errors`, and nothing changes.',
      answer: async ({ client, query, rawBody }) => {
        const posted = { text: decodeText(rawBody), by: client.name, reason: query.reason };
        const found = candidate.check(posted.text);
        if (!found.ok) throw invalidCandidate(found.problems);
        const domains = found.packed.map(({ name }) => name);
        const after = { domains, rules: found.ruleCount ?? 0, hash: hashRules(found.packed) };
        await audit.change(auditedChange(candidate.facts, posted, after), () => sent.put(posted));
        return shown(options);
      },
    }),
    operation('DELETE /api/v1/candidate', {
      summary: 'ends the trial, until another candidate is sent or files at CANDIDATE_RULES_PATH change',
      need: 'operate',
      body: fields({ reason }),
      answers: 'The same as GET.',
      answer: async ({ client, body }) => {
        const by = { by: client.name, reason: body.reason };
        await audit.change(auditedChange(candidate.facts, by, null), () => sent.put(undefined));
        return shown(options);
      },
    }),
  ];
}

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
  { state, hash }: CandidateFacts,
  { by, reason: why }: { readonly by: string; readonly reason: string },
  after: object | null,
) => ({
  who: by,
  change: 'candidate',
  reason: why,
  what: after ?? { hash },
  before: { state, ...(hash && { hash }) },
  after,
});

async function shown(options: AdminOptions, keys = DEFAULT_KEYS, rule?: string): Promise<TriedCandidate> {
  const report = await collectReport(options, keys, rule);
  return showCandidate(options, report, keys);
}

/** The merged reports of all processes on the current candidate. */
async function collectReport(
  { ask, candidate }: AdminOptions,
  keys: number,
  rule?: string,
): Promise<TrialReport | undefined> {
  const { hash } = candidate.facts;
  if (hash === undefined) return undefined;
  const question: CandidateQuestion = { keys, rule };
  const reports = await askPart<TrialReport>({ ask }, 'candidate', question);
  return mergeReports(reports.filter((report) => report.hash === hash)); // a process may still try the previous one
}

function compared({ candidate, rules, settings }: AdminOptions): Answers['GET /api/v1/candidate/diff'] {
  const packed = candidate.packed();
  if (!packed) throw new ApiProblem(404, 'no candidate is tried');
  const { domains, ruleCount } = candidate.facts;
  const before = selectDomains(rules(), new Set(domains));
  if (before.rules.length + ruleCount > MAX_COMPARED_RULES)
    throw new ApiProblem(413, `at most ${MAX_COMPARED_RULES} rules can be compared here: use weir diff`);
  return diffJson(diffRules(before, new RulesInForce(settings.counters.split).replaceAtOnce(packed)));
}

/** The rules of these domains. */
function selectDomains(tree: RuleTree | undefined, names: ReadonlySet<string>): RuleTree {
  const domains = new Map(Array.from(tree?.domains ?? []).filter(([name]) => names.has(name)));
  return { domains, rules: listRules(domains) };
}
