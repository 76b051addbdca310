const DAY_MS = 86_400_000;
/** Results are kept this long whatever the code does, */
const LONGEST_DAYS = 30;
/** and longer while no more lines of `src/` than these were added or removed: about a fifteenth of them. */
const MOST_CHANGED_LINES = 5_000;

/** Rows `command` and `date` of a table's head. */
const RUN = /^\| command \| (.*) \|\n\| date \| (\d{4}-\d\d-\d\d) \|$/gm;

/**
 * The tables of results pages that have to be made again.
 *
 * @param changedLinesSince  lines of `src/` that changed since a day (YYYY-MM-DD), or undefined if that is unknown
 * @returns  a sentence for each, with the page, the date and the command
 */
export function staleResults(
  pages: readonly { readonly name: string; readonly text: string }[],
  now: Date,
  changedLinesSince: (date: string) => number | undefined,
): readonly string[] {
  return pages.flatMap(({ name, text }) =>
    [...text.matchAll(RUN)].flatMap(([, command, date = '']) => {
      const days = Math.floor((now.getTime() - Date.parse(date)) / DAY_MS);
      if (days <= LONGEST_DAYS) return [];
      const lines = changedLinesSince(date) ?? 0;
      if (lines <= MOST_CHANGED_LINES) return [];
      return `docs/results/${name}: the run of ${date} is ${days} days old, and ${lines} lines of src/ have changed since: run ${command} again`;
    }),
  );
}
