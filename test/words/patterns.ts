/** A word or phrase that this project does not use. */
export interface Pattern {
  readonly name: string;
  readonly regex: RegExp;
  /** What to write instead. */
  readonly instead: string;
  /** `code`: only TypeScript without comments and strings. Default: everything. */
  readonly in?: 'code';
}

export const patterns: readonly Pattern[] = [
  {
    name: 'tell',
    regex: /\b[Tt]old\b|\b[Tt]ell(?:s|ing)?\b|\b(?:told|tell)[A-Z]\w*|\b[a-z]\w*Told\b/g,
    instead: 'notify, report, record, log, show',
  },
  {
    name: 'look',
    regex: /\b[Ll]ook(?:s|ed|ing)?\b(?! (?:up|like)\b)|\blook[A-Z]\w*|\b\w+Look(?:s|Ms)?\b|\b\w*LOOK_\w+/g,
    instead: 'poll, check, read; for hits 0: peek',
  },
  { name: 'wanted', regex: /\b[Ww]anted(?:[A-Z]\w*)?\b/g, instead: 'expected, requested, required' },
  {
    name: 'person',
    regex: /(?<![Aa]nyone )\b[Ww]ho(?:ever|m)?\b|\b(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)body\b/g,
    instead: 'client, caller, process, operator',
  },
  { name: 'asked', regex: /\b(?:Asked|Undecided)\b/g, instead: 'BatchRequest, CountersUnavailable' },
  {
    name: 'vague type',
    regex: /\b(?:Basis|Crew|View|Numbers|Whole|Member|Kept)\b|\bemploy\w*/g,
    instead: 'Core, Responders, OpsServer, MetricsSource, WorkerTotals, WorkerHandle, WorkerGauges, spawn',
    in: 'code',
  },
  {
    name: 'under way',
    regex: /\b[Uu]nder ?[Ww]ay\b|\b\w*[uU]nder_?[wW]ay\w*\b|\b\w*UNDER_WAY\b/g,
    instead: 'inFlight, in flight',
  },
  {
    name: 'owe',
    regex: /\bowe[ds]?\b|\b[Rr]epa(?:y|id|ys|ying)\b|\bbringBack\w*|\b[Ss]poil[ts]?\b|\b[Uu]ntold\b|\bNEWS\b|\bFEW\b/g,
    instead: 'debts, settleDebt, unusable, unknownState, EWMA_WEIGHT, ALWAYS_ADMITTED_CALLS',
  },
  {
    name: 'coined name',
    regex: /\bsoftLimitOf\b|\b\w*[Pp]atience\b|#cut\b|\b\w*[Uu]nbusy\b|\bheldBack\b|\.announced\b/g,
    instead: 'nominalCapacity, maxHoldMs, capDelay, #resetEarly, #markAnswered, buffered, bodyBytesLeft',
  },
  {
    name: 'translated phrase',
    regex: new RegExp(
      [
        'nobody.s (?:business|trouble)',
        '[Ww]hen to come again',
        '[Ww]hat is wrong ends',
        'brings? no request nearer',
        'more to do than (?:it )?can',
        'here are only',
        'says of how long the next',
        'an argument, and its levels with commas',
        'with commas between',
        'bring limits along',
        'stays? so\\b',
      ].join('|'),
      'g',
    ),
    instead: 'subject, verb, object, as a native engineer would write it in a code review',
  },
];

/** Test titles that are no sentences: two words at most, or the second half of one. */
export const fragment: Pattern = {
  name: 'title fragment',
  regex:
    /^(?:\S+(?: \S+)?|(?:and|but|or|nor|then|also|of|at|as|from|by|where|what(?:ever)?|however|it does|in every)\b.*)$/gs,
  instead: 'a sentence that stands alone: "admits the limit again in the next window"',
};
