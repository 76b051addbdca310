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
  {
    pattern: 'person',
    reason: 'the field `who` of the audit log',
    files: {
      'src/admin/audit.ts': 1,
      'src/admin/counter-operations.ts': 6,
      'src/admin/override-operations.ts': 2,
      'src/admin/candidate-operations.ts': 1,
      'src/admin/record-operations.ts': 1,
      'src/commands/render.ts': 2,
      'docs/admin.md': 1,
      'console/src/views/audit.tsx': 1,
    },
  },
  {
    pattern: 'look',
    reason: 'the field `looked` of a listing of counters',
    files: { 'src/admin/counter-listing.ts': 1 },
  },
];

/** Names that several exported types still share. Empty when all is done. */
export const pendingNames: readonly string[] = [];

/** Violations in folders that are still to be rewritten: at most so many, per folder and pattern. Empty when all is done. */
export const pending: Readonly<Record<string, Readonly<Record<string, number>>>> = {};
