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
export const pendingNames: readonly string[] = [
  'Explanation',
  'Operation',
  'Override',
  'Problem',
  'Question',
  'Refusal',
  'Reply',
  'Shape',
  'Trace',
];

/** Violations in folders that are still to be rewritten: at most so many, per folder and pattern. Empty when all is done. */
export const pending: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'README.md': { person: 2 },
  'docs/': { look: 1, person: 1, tell: 2, 'translated phrase': 3 },
  'src/admin/': { look: 2, person: 11, 'translated phrase': 1 },
  'src/commands/': { person: 3 },
  'src/envoy/': { person: 2 },
  'src/observe/': { person: 1 },
  'src/settings/': { 'translated phrase': 2 },
  'test/admin/': { person: 1, 'title fragment': 3 },
  'test/envoy/': { 'title fragment': 1 },
  'test/rules/': { tell: 2 },
};
