/** Violations that are allowed: how many, in which files, and why. Counts can only shrink: fewer findings than allowed fail the check as well. */
export interface Exception {
  readonly pattern: string;
  readonly reason: string;
  /** Findings by file. */
  readonly files: Readonly<Record<string, number>>;
}

export const exceptions: readonly Exception[] = [
  {
    pattern: 'under way',
    reason: 'the former name of a setting, which is still read',
    files: { 'src/settings/server.ts': 1, 'docs/settings.md': 1 },
  },
];

/** Names that several exported types still share. Empty when all is done. */
export const pendingNames: readonly string[] = ['Reply', 'Outcome', 'Entry', 'Connection'];

/** Violations in folders that are still to be rewritten: at most so many, per folder and pattern. Empty when all is done. */
export const pending: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'bench/': { 'under way': 2, 'vague type': 2 },
  'docs/': { look: 3, owe: 4, person: 5 },
  'src/algorithms/': { look: 17, owe: 4, person: 1, tell: 5, wanted: 20 },
  'src/backends/': {
    'coined name': 8,
    look: 18,
    owe: 2,
    person: 13,
    tell: 11,
    'translated phrase': 2,
    'under way': 20,
  },
  'src/ledger/': { owe: 20, person: 2, tell: 3 },
  'src/observe/': { asked: 4, person: 2 },
  'src/rules/': { wanted: 2 },
  'src/serve/': { look: 3 },
  'test/algorithms/': { look: 1, owe: 1, tell: 2, 'title fragment': 1 },
  'test/backends/': { tell: 1, 'title fragment': 1 },
  'test/ledger/': { 'title fragment': 1 },
  'test/observe/': { person: 1, 'title fragment': 1, wanted: 1 },
  'test/rules/': { tell: 3, 'title fragment': 7 },
  'test/serve/': { person: 1 },
  'src/': { asked: 12, look: 1, person: 1, tell: 1 },
};
