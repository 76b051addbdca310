import type { ProxyQuota, QuotaReport } from '../../src/edge/rlqs/quota-report.ts';
import type { AuditLine } from '../../src/operate/admin/audit.ts';
import type { ExplainAnswer } from '../../src/operate/admin/explain.ts';
import type { SampledRefusal } from '../../src/operate/admin/refusals.ts';
import type { ListedShare, ShareList, SitePortion } from '../../src/operate/admin/site-limits.ts';
import type { SiteList } from '../../src/operate/admin/site-operations.ts';
import type { ShownTop } from '../../src/operate/admin/top-keys.ts';
import type { UnmatchedDescriptor } from '../../src/operate/admin/unmatched.ts';
import type { Pair } from './route.ts';
import { loadSession, session } from './session.ts';

export type {
  AuditLine,
  ExplainAnswer,
  ListedShare,
  ProxyQuota,
  QuotaReport,
  SampledRefusal,
  ShareList,
  ShownTop,
  SiteList,
  SitePortion,
  UnmatchedDescriptor,
};

/** A response whose status is not 2xx. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * @param path  below `/api/v1/`
 * @param body  JSON, or the text of a rule file
 */
export async function call<T>(method: string, path: string, body?: object | string): Promise<T> {
  const csrf = session.peek()?.csrf;
  const isText = typeof body === 'string';
  const init: RequestInit = {
    method,
    headers: {
      ...(csrf !== undefined && { 'x-weir-csrf': csrf }),
      ...(isText && { 'content-type': 'application/yaml' }),
    },
    ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
  };
  const response = await fetch(`../api/v1/${path}`, init).catch(() => {
    throw new ApiError(0, 'The service cannot be reached.');
  });
  if (response.ok) return (await response.json()) as T;
  if (response.status === 401 && session.peek()?.role !== undefined) void loadSession(); // the session has expired
  const { detail } = (await response.json().catch(() => ({}))) as { detail?: string };
  throw new ApiError(response.status, detail ?? `${response.status} ${response.statusText}`);
}

export const get = <T>(path: string, params: Readonly<Record<string, string | undefined>> = {}): Promise<T> => {
  const query = new URLSearchParams(
    Object.entries(params).filter((pair): pair is [string, string] => pair[1] !== undefined),
  ).toString();
  return call('GET', query === '' ? path : `${path}?${query}`);
};

export interface ListedLimit {
  readonly name?: string;
  readonly algorithm: string;
  readonly unit?: string;
  readonly unit_multiplier?: number;
  readonly window_ms: number;
  readonly requests_per_unit: number;
  readonly soft: number;
  readonly shadow_mode: boolean;
  readonly quota_mode: boolean;
  readonly on_store_failure: string;
  readonly consistency: string;
  readonly burst?: number;
  /** When the limit applies. */
  readonly active?: string;
  readonly on_change?: string;
  readonly [more: string]: unknown;
}

export interface ListedRule {
  readonly domain: string;
  readonly path: string;
  readonly levels: readonly string[];
  readonly file?: string;
  readonly line?: number;
  readonly unlimited?: boolean;
  readonly replaces?: readonly string[];
  readonly limits: readonly ListedLimit[];
  /** The indexes of the limits that apply now, and when others will. */
  readonly schedule?: { readonly now: readonly number[]; readonly changes_at_ms?: number };
}

export interface ListedRules {
  readonly loaded: boolean;
  readonly newest: boolean;
  readonly hash?: string;
  readonly problems: readonly string[];
  readonly rules: readonly ListedRule[];
  readonly more: number;
  readonly reload?: ListedReload;
}

/** The result of the last reload. */
export interface ListedReload {
  readonly at_ms: number;
  readonly text: string;
  readonly counters_kept: readonly string[];
  readonly counters_anew: readonly string[];
}

export interface Columns {
  readonly stepMs: number;
  readonly startedAtMs: number;
  readonly series: Readonly<Record<string, readonly number[]>>;
}

export interface Override {
  readonly domain: string;
  readonly descriptor: string;
  readonly entries: readonly Pair[];
  readonly effect: string;
  readonly until: string;
  readonly by: string;
  readonly reason: string;
}

export const explain = (domain: string, entries: readonly Pair[], hits: number): Promise<ExplainAnswer> =>
  call('POST', 'explain', { domain, descriptors: [{ entries, hits_addend: hits }] });
