import type { Problem } from '../../src/engine/rules/read/problem.ts';
import type { ShownKey } from '../../src/operate/admin/top-keys.ts';
import type { CandidateState } from '../../src/operate/candidate/book.ts';
import type { Tally } from '../../src/operate/candidate/report.ts';
import { call, get } from './api.ts';

/** Without `file`, the problem is in the submitted text. */
export type TextProblem = Omit<Problem, 'file' | 'line'> & { readonly file?: string; readonly line?: number };

export interface FoundProblems {
  readonly problems: readonly TextProblem[];
  /** The number of problems that are not listed. */
  readonly moreProblems: number;
}

export interface TriedKeys {
  readonly count: number;
  readonly isAtLeast: boolean;
  readonly unlistedAtMost: number;
  readonly keys: readonly ShownKey[];
}

export interface TriedRule extends Tally {
  readonly rule: string;
  readonly inLive: boolean;
  readonly inCandidate: boolean;
  readonly newlyRefusedKeys: TriedKeys;
  readonly newlyPassedKeys: TriedKeys;
}

/** The candidate, as the API shows it. */
export interface TriedCandidate extends FoundProblems {
  readonly state: CandidateState;
  readonly origin: 'file' | 'api' | null;
  readonly from: string | null;
  readonly by: string | null;
  readonly reason: string | null;
  readonly loadedAt: string | null;
  readonly domains: readonly string[];
  readonly ruleCount: number;
  readonly sample: number;
  /** The start of the figures; null: the candidate is not in use yet. */
  readonly since: string | null;
  readonly dropped: { readonly behind: number; readonly overload: number };
  readonly evicted: number;
  readonly failed: number;
  readonly withheld: number;
  readonly totals: Tally;
  readonly rules: readonly TriedRule[];
  readonly moreRules: number;
}

export interface TextCheck extends FoundProblems {
  readonly ok: boolean;
  readonly domain?: string;
  readonly rules?: number;
}

export interface RuleText {
  readonly name: string;
  readonly text: string;
}

export const getCandidate = (): Promise<TriedCandidate> => get('candidate');

export const candidateText = async (): Promise<string> => (await get<{ readonly text: string }>('candidate/text')).text;

export const filesInForce = async (domain: string): Promise<readonly RuleText[]> =>
  (await get<{ readonly files: readonly RuleText[] }>('rules/text', { domain })).files;

export const checkText = (text: string): Promise<TextCheck> => call('POST', 'rules/check', text);

export const loadCandidate = (text: string, reason: string): Promise<TriedCandidate> =>
  call('POST', `candidate?${new URLSearchParams({ reason })}`, text);

export const clearCandidate = (reason: string): Promise<TriedCandidate> => call('DELETE', 'candidate', { reason });
