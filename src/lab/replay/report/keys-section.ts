import { type KeyRow, outcomeOfKey } from './key-table.ts';
import { foreign, html, type Markup } from './markup.ts';
import type { ListedKey, PageSource, RuleReport } from './page-source.ts';
import { count, counted, share } from './texts.ts';

/** The most keys in a list over all rules, and the number of them that are shown before it is expanded. */
const MAX_LISTED_KEYS = 100;
const MAX_SHOWN_KEYS = 10;

/** The keys that a change hurts most, or that are refused most. */
export function keysSection({ data }: PageSource, rules: readonly RuleReport[]): Markup {
  const all = rules.flatMap((rule) => Array.from(rule.keys.rows, ([name, row]): ListedKey => ({ name, row, rule })));
  const lists: readonly (readonly [title: string, empty: string, keys: readonly ListedKey[]])[] = data.isChange
    ? [
        [
          'Keys newly hurt',
          'No key is newly hurt.',
          mostOf(all, ({ row }) => (outcomeOfKey(row) === 'newly_refused' ? row.after : 0)),
        ],
        [
          'Keys refused more than before',
          'No key that was refused before is refused more often.',
          mostOf(all, ({ row }) => (outcomeOfKey(row) === 'refused' ? row.after - row.before : 0)),
        ],
        [
          'Keys newly spared',
          'No key is newly spared.',
          mostOf(all, ({ row }) => (outcomeOfKey(row) === 'spared' ? row.before : 0)),
        ],
      ]
    : [['Keys refused most', 'No key is refused.', mostOf(all, ({ row }) => row.after)]];
  const shown = lists.filter(([, , keys], at) => at === 0 || keys.length > 0);
  return html`${shown.map(([title, empty, keys]) => listSection(title, empty, keys, data.isChange))}`;
}

function listSection(title: string, empty: string, keys: readonly ListedKey[], isChange: boolean): Markup {
  const [first, more] = [keys.slice(0, MAX_SHOWN_KEYS), keys.slice(MAX_SHOWN_KEYS, MAX_LISTED_KEYS)];
  const left = keys.length - first.length - more.length;
  return html`<section><h2>${title}<span class="count">${count(keys.length)}</span></h2>
${keys.length === 0 ? html`<p>${empty}</p>` : keyTable(first, { title, isChange, hasRule: true })}
${more.length > 0 && html`<details><summary>${count(more.length)} more</summary>${keyTable(more, { title: `${title}, continued`, isChange, hasRule: true })}</details>`}
${left > 0 && html`<p class="unit">and ${counted(left, 'further key')}</p>`}</section>`;
}

export const mostOf = (keys: readonly ListedKey[], by: (key: ListedKey) => number): readonly ListedKey[] =>
  keys.filter((key) => by(key) > 0).sort((one, other) => by(other) - by(one) || (one.name < other.name ? -1 : 1));

/** @param title  of the table */
export function keyTable(
  keys: readonly ListedKey[],
  { title, isChange, hasRule }: { readonly title: string; readonly isChange: boolean; readonly hasRule: boolean },
): Markup {
  const refusedHeads = isChange
    ? html`<th scope="col" class="n">Refused before</th><th scope="col" class="n">Refused now</th>`
    : html`<th scope="col" class="n">Refused</th>`;
  const rows = keys.map(
    ({ name, row, rule }) => html`<tr><th scope="row">${foreign(name)}</th>
${hasRule && html`<td data-name="Rule">${foreign(rule.path)}</td>`}
<td class="n" data-name="Requests">${count(row.requests)}</td>
${isChange && html`<td class="n" data-name="Refused before">${count(row.before)}</td>`}
<td class="n" data-name="${isChange ? 'Refused now' : 'Refused'}">${count(row.after)}</td>
<td data-name="Share refused">${shareBar(row)}</td>
<td class="n" data-name="Busiest window">${count(row.busiest)}</td></tr>`,
  );
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${title}"><table>
<thead><tr><th scope="col">Key</th>${hasRule && html`<th scope="col">Rule</th>`}<th scope="col" class="n">Requests</th>${refusedHeads}<th scope="col">Share refused</th><th scope="col" class="n">Busiest window</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
}

/** The share of a key's requests that is refused, before and after the change. */
function shareBar({ requests, before, after }: KeyRow): Markup {
  const width = (part: number): string => String(Math.round((1000 * part) / requests) / 10);
  const [both, more, less] = [Math.min(before, after), Math.max(after - before, 0), Math.max(before - after, 0)];
  return html`<span class="bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="passed" width="100" height="8"/><rect class="refused" width="${width(both)}" height="8"/><rect class="newly_refused" x="${width(both)}" width="${width(more)}" height="8"/><rect class="spared" x="${width(both)}" width="${width(less)}" height="8"/></svg>${share(after, requests)}</span>`;
}
