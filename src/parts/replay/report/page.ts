import { present } from '../../../base/group.ts';
import { count, counted, moment, share } from '../../../base/texts.ts';
import type { Figures } from '../figures.ts';
import { spanText } from '../report.ts';
import { foreign, html, type Markup } from './markup.ts';
import { detailSections, type PageSource } from './rule-section.ts';
import { STYLE } from './style.ts';
import { outcomeNames, timeline } from './timeline.ts';

/** Renders a self-contained HTML file, without scripts or external requests. */
export function reportPage(report: PageSource): string {
  const { data } = report;
  const names = outcomeNames[data.isChange ? 'change' : 'single'];
  const { markup } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>Weir: ${headline(report)}</title>
<style>${{ markup: STYLE }}</style>
</head>
<body${{ markup: data.isChange ? '' : ' class="single"' }}>
<header><p class="brand">Weir</p>
<h1>${headline(report)}</h1>
${source(report)}</header>
<main>
${tiles(report)}
<section><h2>All requests</h2>${legend(data.isChange)}${timeline(data.all, data.axis, names)}</section>
${detailSections(report, names)}
${notesSection(report)}
</main>
</body>
</html>
`;
  return markup;
}

function source({ names, figures, data }: PageSource): Markup {
  const { firstMs, lastMs } = figures;
  const before = names.against === undefined ? 'what was recorded' : names.rules;
  const rules = data.isChange ? `${before} → ${names.against ?? names.rules}` : names.rules;
  return html`<dl class="source"><div><dt>${data.isChange ? 'Change' : 'Rules'}</dt><dd>${foreign(rules)}</dd></div>
<div><dt>Traffic</dt><dd>${names.traffic.map((name, at) => html`${at > 0 ? ', ' : ''}${foreign(name)}`)}</dd></div>
<div><dt>Requests</dt><dd>${count(figures.rules.requests)}</dd></div>
${firstMs !== undefined && lastMs !== undefined ? html`<div><dt>Time</dt><dd>${moment(firstMs)} to ${moment(lastMs)} UTC (${spanText(lastMs - firstMs)})</dd></div>` : undefined}</dl>`;
}

function notesSection({ warnings, counts, data, figures }: PageSource): Markup | undefined {
  const { recorded } = figures;
  const all = present([
    ...warnings,
    recorded &&
      `The same in the replay: ${share(recorded.same, recorded.answers)} of ${counted(recorded.answers, 'recorded answer')}.`,
    counts.unmapped > 0 &&
      `${counted(counts.unmapped, 'request')} without a descriptor from the mapping passed without being counted.`,
    counts.late > 0 && `${counted(counts.late, 'request')} came too far out of order to be sorted (--reorder).`,
    data.untracked > 0 &&
      `The keys of ${counted(data.untracked, 'request')} are in no list or plot of keys: there are too many.`,
    counts.broken > 0 && `Skipped ${counted(counts.broken, 'broken line')} of the input, such as:`,
    ...counts.examples,
  ]);
  if (all.length === 0) return undefined;
  return html`<section><h2>Notes</h2><ul class="notes">${all.map((note) => html`<li>${foreign(note)}</li>`)}</ul></section>`;
}

/** The result in one sentence. */
function headline({ figures }: PageSource): string {
  const { requests, refused, keysHurt } = figures.rules;
  if (requests === 0) return 'There were no requests';
  if (figures.change) return changeHeadline(figures.change, figures.against !== undefined);
  if (refused === 0) return 'The rules refuse no request';
  return `The rules refuse ${share(refused, requests)} of requests, and hurt ${counted(keysHurt, 'key')}`;
}

/** @param isOther  whether the rules are compared with other rules rather than recorded answers */
function changeHeadline(change: NonNullable<Figures['change']>, isOther: boolean): string {
  const { newlyRefused, newlyAdmitted, compared, keysNewlyHurt } = change;
  const [refuse, admit] = isOther
    ? ['The change refuses', 'The change admits']
    : ['The rules refuse', 'The rules admit'];
  const admits = `${admit} ${share(newlyAdmitted, compared)} of requests that were refused before`;
  if (newlyRefused === 0) {
    if (newlyAdmitted > 0) return `${admits}, and ${isOther ? 'refuses' : 'refuse'} no other`;
    return isOther ? 'The change alters no answer' : 'The rules give the recorded answers';
  }
  const hurts = `${counted(keysNewlyHurt, 'key')} ${keysNewlyHurt === 1 ? 'is' : 'are'} newly hurt`;
  return `${refuse} ${share(newlyRefused, compared)} of requests that passed before: ${hurts}`;
}

/** The figures for all requests. */
function tiles({ figures }: PageSource): Markup {
  const { rules, change, labels } = figures;
  const { requests, admitted, refused, keysHurt } = rules;
  const refusedText = `${count(refused)} of ${counted(requests, 'request')}`;
  const plain = (): readonly Markup[] => [
    tile('refused', 'Refused', share(refused, requests), refusedText),
    tile('refused', 'Keys hurt', count(keysHurt), 'refused at least once'),
    tile('', 'Admitted', share(admitted, requests), counted(admitted, 'request')),
  ];
  const all = [...(change ? changeTiles(figures, change, refusedText) : plain())];
  if (labels) {
    const { wrong, missed, labelled } = labels;
    all.push(tile('', 'Wrong refusals', count(wrong), `${count(missed)} missed, of ${count(labelled)} labelled`));
  }
  return html`<dl class="tiles${all.length % 3 === 0 && ' thirds'}">${all}</dl>`;
}

/** @param refusedText  how many the rules refuse */
function changeTiles(
  { rules, against }: Figures,
  change: NonNullable<Figures['change']>,
  refusedText: string,
): readonly Markup[] {
  const { compared, newlyRefused, newlyAdmitted, keysNewlyHurt, keysNewlySpared } = change;
  const part = ({ refused, requests }: Figures['rules']): string => share(refused, requests);
  const [parts, requests] = against
    ? [`${part(rules)} → ${part(against)}`, `${count(rules.refused)} → ${counted(against.refused, 'request')}`]
    : [part(rules), refusedText];
  return [
    tile('newly_refused', 'Newly refused', share(newlyRefused, compared), counted(newlyRefused, 'request')),
    tile('newly_refused', 'Keys newly hurt', count(keysNewlyHurt), 'refused now, never before'),
    tile('spared', 'Newly admitted', share(newlyAdmitted, compared), counted(newlyAdmitted, 'request')),
    tile('spared', 'Keys newly spared', count(keysNewlySpared), 'refused before, never now'),
    tile('refused', 'Refused in all', parts, requests),
  ];
}

/** @param kind  outcome whose colour it has, unless the value is 0 */
const tile = (kind: string, name: string, value: string, more: string): Markup =>
  html`<div class="tile${/^0( %)?$/.test(value) ? '' : ` ${kind}`}"><dt>${name}</dt><dd><b${value.includes('→') && { markup: ' class="pair"' }}>${value}</b><span>${more}</span></dd></div>`;

const legend = (isChange: boolean): Markup =>
  html`<ul class="legend">${(['newly_refused', 'refused', 'spared', 'passed'] as const).flatMap((outcome) => {
    const name = outcomeNames[isChange ? 'change' : 'single'][outcome];
    return name === '' ? [] : [html`<li><i class="${outcome}"></i>${name}</li>`];
  })}</ul>`;
