/** Markup that may stand in a page as it is. Only `html` and `joined` make it. */
export interface Markup {
  readonly markup: string;
}

type Part = Markup | string | number | undefined | false | readonly Part[];

/** A template of HTML: texts are escaped, markup is not, lists are put one after the other. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  let markup = strings[0] ?? '';
  for (let at = 0; at < parts.length; at++) markup += rendered(parts[at]) + (strings[at + 1] ?? '');
  return { markup };
}

function rendered(part: Part): string {
  if (part === undefined || part === false) return '';
  if (typeof part === 'string') return escaped(part);
  if (typeof part === 'number') return String(part);
  return 'markup' in part ? part.markup : part.map(rendered).join('');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (one) => ENTITIES[one] ?? one);

/** The longest text of a caller that is shown. */
const SHOWN_CHARACTERS = 120;

/**
 * A text that a caller sent: isolated from the direction of the text around it, control characters replaced, cut where
 * it is long.
 */
export function foreign(text: string): Markup {
  const cut = text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`;
  return html`<bdi>${cut.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '\ufffd')}</bdi>`;
}
