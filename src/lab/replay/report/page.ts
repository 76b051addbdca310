import { spanText } from '../report.ts';
import { keysSection } from './keys-section.ts';
import { foreign, html, type Markup } from './markup.ts';
import { type PageSource, rulesOf } from './page-source.ts';
import { otherRules, ruleSection } from './rule-section.ts';
import { STYLE } from './style.ts';
import { headline, legend, tiles } from './summary.ts';
import { count, counted, moment, share } from './texts.ts';
import { outcomeNames, timeline } from './timeline.ts';

/** The most rules with plots; others are in a table. */
const MAX_PLOTTED_RULES = 25;

/** A self-contained HTML file: no script, no external requests. */
export function reportPage(report: PageSource): string {
  const { data } = report;
  const names = outcomeNames[data.isChange ? 'change' : 'single'];
  const rules = rulesOf(report);
  const [plotted, others] = [rules.slice(0, MAX_PLOTTED_RULES), rules.slice(MAX_PLOTTED_RULES)];
  const { markup } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>Replay: ${headline(report)}</title>
<style>${{ markup: STYLE }}</style>
</head>
<body${{ markup: data.isChange ? '' : ' class="single"' }}>
<header><p class="brand">Weir replay</p>
<h1>${headline(report)}</h1>
${source(report)}</header>
<main>
${tiles(report)}
<section><h2>All requests</h2>${legend(data.isChange)}${timeline(data.all, data.axis, names)}</section>
${keysSection(report, rules)}
<section class="rules"><h2>Rules</h2>
${rules.length === 0 ? html`<p>No request met a rule.</p>` : undefined}
${plotted.map((rule) => ruleSection(rule, report, names))}
${others.length > 0 && otherRules(others, data.isChange)}</section>
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
  const all = [
    ...warnings,
    ...(recorded
      ? [
          `${share(recorded.same, recorded.answers)} of ${counted(recorded.answers, 'recorded answer')} are the same in the replay.`,
        ]
      : []),
    ...(counts.unmapped > 0
      ? [`${counted(counts.unmapped, 'request')} without a descriptor from the mapping passed without being counted.`]
      : []),
    ...(counts.late > 0
      ? [`${counted(counts.late, 'request')} came too far out of order to be sorted (--reorder).`]
      : []),
    ...(data.untracked > 0
      ? [`The keys of ${counted(data.untracked, 'request')} are in no list or plot of keys: there are too many.`]
      : []),
    ...(counts.broken > 0 ? [`${counted(counts.broken, 'broken line')} of the input were skipped, such as:`] : []),
    ...counts.examples,
  ];
  if (all.length === 0) return undefined;
  return html`<section><h2>Notes</h2><ul class="notes">${all.map((note) => html`<li>${foreign(note)}</li>`)}</ul></section>`;
}
