/**
 * Permitted violations: their number, files and reason. Numbers can only shrink: fewer findings than permitted fail the
 * check, too.
 */
export interface Exception {
  readonly pattern: string;
  readonly reason: string;
  /** The number of findings by file. */
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
      'src/operate/answers/service.ts': 1,
      'src/operate/admin/counter-operations.ts': 2,
      'src/operate/admin/override-operations.ts': 2,
      'src/operate/admin/candidate-operations.ts': 1,
      'src/operate/admin/operations.ts': 1,
      'src/cli/commands/render.ts': 2,
      'docs/admin.md': 1,
      'console/src/views/audit.tsx': 1,
    },
  },
  {
    pattern: 'look',
    reason: 'the field `looked` of a listing of counters',
    files: {
      'src/operate/answers/counters.ts': 1,
      'src/operate/admin/named-counters.ts': 1,
    },
  },
];

/** Names that several exported types still share. Empty once all are renamed. */
export const pendingNames: readonly string[] = [];

/**
 * The most violations in folders that are still to be rewritten, per folder and pattern. Empty once all are rewritten.
 */
export const pending: Readonly<Record<string, Readonly<Record<string, number>>>> = {};
