import { printable } from '../../base/printable.ts';
import { keyText, valueText } from '../../engine/rules/match/descriptor-text.ts';
import type { Entry } from '../../engine/rules/match/match.ts';

/** Formats entries returned by `forTerminal` as a descriptor. */
export const shownEntries = (entries: readonly Entry[]): string =>
  entries.map(({ key, value }) => `${key}=${value}`).join(',');

/**
 * A service's answer with every text printable on one line, since callers chose some of them. The key and value of an
 * entry, and of a rule node that it was compared with, are written so that `parseDescriptor` reads them.
 */
export const forTerminal = <T>(sent: T): T => shownOf(sent) as T; // texts stay texts

/** Properties whose items have a key and a value like entries, but are no entries. */
const isOfHeaders = (name: string): boolean => name.endsWith('HeadersToAdd');

/** @param name  the property that has the value, or the list of it */
function shownOf(sent: unknown, name = ''): unknown {
  if (typeof sent === 'string') return printable(sent);
  if (Array.isArray(sent)) return sent.map((one) => shownOf(one, name));
  if (typeof sent !== 'object' || sent === null) return sent;
  const { key, value } = sent as { readonly key?: unknown; readonly value?: unknown };
  const shown = Object.fromEntries(Object.entries(sent).map(([own, one]) => [printable(own), shownOf(one, own)]));
  const isEntry = !isOfHeaders(name) && typeof key === 'string' && (typeof value === 'string' || 'matched' in sent);
  if (!isEntry) return shown;
  return { ...shown, key: keyText(key), ...(typeof value === 'string' && { value: valueText(value) }) };
}
