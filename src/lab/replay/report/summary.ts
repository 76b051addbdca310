import type { Figures } from '../figures.ts';
import { html, type Markup } from './markup.ts';
import type { PageSource } from './page-source.ts';
import { count, counted, share } from './texts.ts';
import { outcomeNames } from './timeline.ts';

/** The result in one sentence. */
export function headline({ figures }: PageSource): string {
  const { requests, refused, keysHurt } = figures.rules;
  if (requests === 0) return 'There were no requests';
  if (figures.change) return changeHeadline(figures.change, figures.against !== undefined);
  if (refused === 0) return 'The rules refuse no request';
  return `The rules refuse ${share(refused, requests)} of requests, and hurt ${counted(keysHurt, 'key')}`;
}

/** @param isOther  the rules are compared with other rules, not with recorded answers */
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
export function tiles({ figures }: PageSource): Markup {
  const { rules, against, change, labels } = figures;
  const refusals = (side: typeof rules): string => share(side.refused, side.requests);
  const tile = (kind: string, name: string, value: string, more: string): Markup =>
    html`<div class="tile${/^0( %)?$/.test(value) ? '' : ` ${kind}`}"><dt>${name}</dt><dd><b${value.includes('→') ? { markup: ' class="pair"' } : undefined}>${value}</b><span>${more}</span></dd></div>`;
  const shown = change
    ? [
        tile(
          'newly_refused',
          'Newly refused',
          share(change.newlyRefused, change.compared),
          counted(change.newlyRefused, 'request'),
        ),
        tile('newly_refused', 'Keys newly hurt', count(change.keysNewlyHurt), 'refused now, never before'),
        tile(
          'spared',
          'Newly admitted',
          share(change.newlyAdmitted, change.compared),
          counted(change.newlyAdmitted, 'request'),
        ),
        tile('spared', 'Keys newly spared', count(change.keysNewlySpared), 'refused before, never now'),
        against
          ? tile(
              'refused',
              'Refused in all',
              `${refusals(rules)} → ${refusals(against)}`,
              `${count(rules.refused)} → ${counted(against.refused, 'request')}`,
            )
          : tile(
              'refused',
              'Refused in all',
              refusals(rules),
              `${count(rules.refused)} of ${counted(rules.requests, 'request')}`,
            ),
      ]
    : [
        tile('refused', 'Refused', refusals(rules), `${count(rules.refused)} of ${counted(rules.requests, 'request')}`),
        tile('refused', 'Keys hurt', count(rules.keysHurt), 'refused at least once'),
        tile('', 'Admitted', share(rules.admitted, rules.requests), counted(rules.admitted, 'request')),
      ];
  if (labels)
    shown.push(
      tile(
        '',
        'Wrong refusals',
        count(labels.wrong),
        `${count(labels.missed)} missed, of ${count(labels.labelled)} labelled`,
      ),
    );
  return html`<dl class="tiles${shown.length % 3 === 0 && ' thirds'}">${shown}</dl>`;
}

export const legend = (isChange: boolean): Markup =>
  html`<ul class="legend">${(['newly_refused', 'refused', 'spared', 'passed'] as const).flatMap((outcome) => {
    const name = outcomeNames[isChange ? 'change' : 'single'][outcome];
    return name === '' ? [] : [html`<li><i class="${outcome}"></i>${name}</li>`];
  })}</ul>`;
