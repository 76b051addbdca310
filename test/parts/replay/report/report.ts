import { ReplayFigures } from '../../../../src/parts/replay/figures.ts';
import { TrafficCounts } from '../../../../src/parts/replay/input.ts';
import { reportPage } from '../../../../src/parts/replay/report/page.ts';
import { ReportData } from '../../../../src/parts/replay/report/report-data.ts';
import type { RecordedRequest, ReplayedAnswer, ReplayedCode } from '../../../../src/parts/replay/request.ts';

export const START_MS = 1_767_571_200_000;

/** One observed request, with its key, its time and the answers of both rule sets, or of one without `after`. */
export interface Row {
  readonly atMs: number;
  readonly user: string;
  readonly before: ReplayedCode;
  readonly after?: ReplayedCode;
  readonly rule?: string;
}

/** The data of a report on these requests. */
export function observed(rows: readonly Row[], maxKeys?: number, maxRules?: number) {
  const data = new ReportData(maxKeys, maxRules);
  const figures = new ReplayFigures();
  for (const row of rows) {
    const recorded: RecordedRequest = {
      timeMs: START_MS + row.atMs,
      request: {
        domain: 'demo',
        descriptors: [{ entries: [{ key: 'user', value: row.user }], hits: 1, requestLimit: undefined }],
      },
    };
    const answers = [
      recorded,
      createAnswer(row, row.before, 10),
      row.after && createAnswer(row, row.after, 5),
    ] as const;
    data.observe(...answers);
    figures.observe(...answers);
  }
  return { data, figures: figures.result() };
}

function createAnswer({ user, rule = 'demo.user' }: Row, code: ReplayedCode, limit: number): ReplayedAnswer {
  const key = `fixed_window.2|60000|4:demo|4:user|${user.length}:${user}`;
  return { code, descriptors: [{ rule, key, code, limit, windowMs: 60_000, remaining: 0 }] };
}

/** The page of a report on these requests. */
export function pageOf(rows: readonly Row[], notes: readonly string[] = [], traffic = ['access.log']): string {
  const names = { rules: 'rules.yaml', against: rows.some(({ after }) => after) ? 'new.yaml' : undefined, traffic };
  return reportPage({ ...observed(rows), counts: new TrafficCounts(), warnings: notes, names });
}
