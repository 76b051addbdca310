/** The parts of the behaviour that a server may claim. */
export const profiles = {
  protocol: 'the Rate Limit Service itself: what any server must answer, whatever its rules look like',
  semantics: "envoyproxy/ratelimit's rule files: matching, wildcards, units, overrides, modes",
  recent: 'what envoyproxy/ratelimit gained in 2026: wildcards inside values, quota mode',
  reload: 'rule files that change while the server runs, and invalid ones',
  json: 'POST /json on the HTTP port',
  statistics: 'the counters of envoyproxy/ratelimit, sent as StatsD',
  envoy: 'calls as the filters of Envoy send them',
  'give-back': 'hits that come back, as Envoy 1.40 sends them at the end of streams',
  agentgateway: 'calls as agentgateway sends them for language models: a check, then a charge',
  kuadrant: "calls as Kuadrant's filter sends them: kuadrant.service.ratelimit.v1",
} as const;
export type Profile = keyof typeof profiles;

/** A behaviour, and how to see it. */
export interface Case {
  /** `semantics/035` */
  readonly id: string;
  readonly profile: Profile;
  readonly title: string;
  /** What goes wrong for whom without it. */
  readonly why: string;
  /** A page or file that specifies it. */
  readonly source: string;
  /** Rule files by name. */
  readonly files: Readonly<Record<string, string>>;
  /** Length of the shortest window of the rules, within which all steps must be played. */
  readonly unit: Unit;
  readonly steps: readonly Step[];
}

export type Unit = 'SECOND' | 'MINUTE' | 'HOUR' | 'DAY' | 'WEEK' | 'MONTH' | 'YEAR';

export const unitMs: Readonly<Record<Unit, number>> = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  DAY: 86_400_000,
  WEEK: 604_800_000,
  MONTH: 2_592_000_000,
  YEAR: 31_536_000_000,
};

/** One action; its fields depend on `do`. */
export interface Step {
  readonly do: string;
  readonly request?: Request;
  /** The same request this often; the last answer is compared. */
  readonly repeat?: number;
  /** The same request this often at once; the number of admitted ones is compared. */
  readonly parallel?: number;
  readonly body?: unknown;
  readonly method?: string;
  readonly service?: string;
  readonly write?: Readonly<Record<string, string>>;
  readonly delete?: readonly string[];
  readonly expect?: Readonly<Record<string, unknown>>;
}

/** A request in short form: entries are pairs of key and value. */
export interface Request {
  readonly domain?: string;
  readonly hits_addend?: number;
  readonly descriptors?: readonly {
    readonly entries?: readonly (readonly [string, string?])[];
    readonly limit?: { readonly requests_per_unit?: number; readonly unit?: string | number };
    readonly hits_addend?: number | string;
    readonly is_negative_hits?: boolean;
  }[];
}
