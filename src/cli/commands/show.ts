import { printableJson } from '../../base/printable.ts';
import { forTerminal } from './for-terminal.ts';
import { type Paint, paintFor } from './paint.ts';

/** The output of a command. */
interface CommandOutput {
  readonly print: (text: string) => void;
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Prints what a service sent: as JSON, or rendered for people. */
export function show<T extends object>(
  { json }: { readonly json: boolean },
  found: T,
  render: (found: T, paint: Paint) => string,
  { print, isTerminal, env }: CommandOutput,
): void {
  print(json ? printableJson(found) : render(forTerminal(found), paintFor(isTerminal, env.NO_COLOR)));
}
