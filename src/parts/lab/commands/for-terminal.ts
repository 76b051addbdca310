import { printable } from '../../../base/printable.ts';
import { keyText, valueText } from '../../../edge/listing/descriptor-text.ts';
import type { Entry } from '../../../engine/rules/match/match.ts';

/** Formats entries returned by `forTerminal` as a descriptor. */
export const shownEntries = (entries: readonly Entry[]): string =>
  entries.map(({ key, value }) => `${key}=${value}`).join(',');

/**
 * Makes every text of a service's answer printable on one line, since callers chose some of them. Key and value of an
 * entry, and of a rule node that it was compared with, are written so that `parseDescriptor` reads them.
 */
export const forTerminal = <T>(sent: T): T => makePrintable(sent) as T; // texts stay texts

/** Properties whose items have a key and a value like entries, but are not entries. */
const isOfHeaders = (name: string): boolean => name.endsWith('HeadersToAdd');

/** @param name  property that has the value or its list */
function makePrintable(sent: unknown, name = ''): unknown {
  if (typeof sent === 'string') return printable(sent);
  if (Array.isArray(sent)) return sent.map((one) => makePrintable(one, name));
  if (typeof sent !== 'object' || sent === null) return sent;
  const { key, value } = sent as { readonly key?: unknown; readonly value?: unknown };
  const shown = Object.fromEntries(Object.entries(sent).map(([own, one]) => [printable(own), makePrintable(one, own)]));
  const isEntry = !isOfHeaders(name) && typeof key === 'string' && (typeof value === 'string' || 'matched' in sent);
  if (!isEntry) return shown;
  return { ...shown, key: keyText(key), ...(typeof value === 'string' && { value: valueText(value) }) };
}
