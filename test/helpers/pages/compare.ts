import { writeFileSync } from 'node:fs';
import { lasting, type PageSetup, runPage, withOutput } from './run-page.ts';

/** Runs the commands of a page, and compares their output with what the page shows; UPDATE_PAGES=1 writes it instead. */
export async function updateOrCompare(path: string, setup?: PageSetup): Promise<void> {
  const ran = await runPage(path, setup);
  if (process.env.UPDATE_PAGES === '1') return writeFileSync(path, withOutput(path, ran));
  expect(ran.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(1);
  for (const { command, shown, printed } of ran) {
    expect({ command, printed: shown === undefined ? printed : lasting(printed) }).toEqual({
      command,
      printed: shown === undefined ? expect.not.stringMatching(/error|unknown|expected/i) : lasting(shown),
    });
  }
}
